"""The `resume` request: a restored guest learns the time and who it is, before anyone may use it.

Done without starting a program, except when a connection of the machine's former life has to be dropped.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stormcell.guest import spawn
from stormcell.guest.job import Job
from stormcell.guest.trees import Single, Tree
from stormcell.guest.wire import WireError

if TYPE_CHECKING:
    from stormcell.guest.agent import Agent
    from stormcell.guest.port import Port

COUNTERS = "/proc/net/snmp"
PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_DEFAULT_RANGE = (32768, 60999)
_ROOM = 8192
GENERATION = "/run/stormcell/generation"
MACHINE_ID = "/run/machine-id"
# linux/random.h
_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207
_ESTABLISHED = "01"
_DROP = ["ss", "-K", "state", "connected", "not", "dst", "127.0.0.0/8", "and", "not", "dst", "[::1]"]


class Resume:
    """Serves `resume`.

    What it needs is open beforehand, and files have the length that they will have: after a restore each file that is
    opened, extended or cut costs milliseconds, since all code has to be translated anew.
    """

    def __init__(self) -> None:
        self._random = os.open("/dev/urandom", os.O_RDWR | os.O_CLOEXEC)
        self._counters = os.open(COUNTERS, os.O_RDONLY | os.O_CLOEXEC)
        self._machine_id = _Line(MACHINE_ID, 0o444, width=32)
        self._generation = _Line(GENERATION, 0o644, width=16)
        self._ports = os.open(PORT_RANGE, os.O_RDWR | os.O_CLOEXEC)
        self._range = _DEFAULT_RANGE

    def serve(self, agent: Agent, port: Port, stream: int, request: Mapping[str, Any]) -> None:
        """Answer `resumed`. Raises WireError, OSError: then nothing is acknowledged."""
        agent.generation = self.become(request)
        dropped = foreign_connections() if established(self._counters) else 0

        def answer(_job: Job | None = None) -> dict[str, Any]:
            return {**agent.greeting(), "wall_clock_ns": time.time_ns(), "dropped": dropped, "orphans": agent.orphans}

        if not dropped:
            port.finish(stream, answer())
            return
        drop = spawn.Command(_DROP)
        child = spawn.spawn(lambda: spawn.run_command(drop, {}), stdin=False, enter=lambda: None)
        port.streams[stream] = Job(
            port, stream, child, Single(), timeout=20, conclude=answer, release=_nothing, collect=True
        )

    def become(self, request: Mapping[str, Any]) -> str:
        """Take on time, entropy and identity; the generation. Raises WireError, OSError."""
        wall, name = request.get("wall_clock_ns"), request.get("hostname")
        machine_id, life, entropy = request.get("machine_id"), request.get("generation"), request.get("entropy")
        if not isinstance(wall, int) or not all(isinstance(text, str) for text in (name, machine_id, life, entropy)):
            raise WireError("resume takes wall_clock_ns, hostname, machine_id, generation and entropy")
        seed = bytes.fromhex(str(entropy))
        set_clock(wall, request.get("advance_ns"))
        reseed(self._random, seed)
        self._vary_ports(seed)
        socket.sethostname(str(name))
        self._machine_id.write(str(machine_id))
        self._generation.write(str(life))
        return str(life)

    def _vary_ports(self, seed: bytes) -> None:
        """Begin the ephemeral ports elsewhere than the siblings do.

        A connection's port is an offset into the range, hashed with secrets that were drawn at boot or at the first
        connection (__inet_hash_connect in net/ipv4/inet_hashtables.c), so copies of one machine choose the same. A
        range that somebody else set, a fault perhaps, is left alone.
        """
        found = os.pread(self._ports, 64, 0).split()
        if tuple(map(int, found)) == self._range:
            # even steps: the kernel takes odd and even ports for different uses, counted from the lower bound
            low, high = (int.from_bytes(seed[at : at + 2], "big") % (_ROOM // 2) * 2 for at in (0, 2))
            self._range = (_DEFAULT_RANGE[0] + low, _DEFAULT_RANGE[1] - high)
            os.pwrite(self._ports, b"%d %d\n" % self._range, 0)


def set_clock(wall_ns: object, advance_ns: object) -> None:
    """Step the wall clock by `advance_ns`, or to `wall_ns` when there is none. Raises WireError, OSError.

    The step is what the guest did not live through; a wall clock that a fault had set otherwise stays as wrong.
    """
    if isinstance(advance_ns, int):
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + advance_ns)
    elif isinstance(wall_ns, int):
        time.clock_settime_ns(time.CLOCK_REALTIME, wall_ns)
    else:
        raise WireError("a clock is set by advance_ns or to wall_clock_ns, whole numbers")


def clock(_agent: Agent, port: Port, stream: int, request: Mapping[str, Any]) -> None:
    """Serve `clock`: step it if `advance_ns` is there, and tell it."""
    if "advance_ns" in request:
        set_clock(None, request["advance_ns"])
    port.finish(stream, {"wall_clock_ns": time.time_ns()})


def generation() -> str:
    """The life this machine leads since the last `resume`; empty before the first."""
    try:
        with open(GENERATION) as file:
            return file.read().strip()
    except OSError:
        return ""


def reseed(random: int, entropy: bytes) -> None:
    """Mix `entropy` into the kernel's pool, credit it, and have the generator take it up at once (random(4))."""
    fcntl.ioctl(random, _RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
    fcntl.ioctl(random, _RNDRESEEDCRNG)


def foreign_connections() -> int:
    """Established TCP connections whose peer is not this machine, from /proc/net."""
    count = 0
    for path, loopback in (("/proc/net/tcp", _loopback), ("/proc/net/tcp6", _loopback6)):
        try:
            with open(path) as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        count += sum(row[3] == _ESTABLISHED and not loopback(row[2].partition(":")[0]) for row in rows)
    return count


def established(counters: int) -> bool:
    """Whether any TCP connection of either family is up; far cheaper to ask than which (CurrEstab, RFC 4022)."""
    return os.pread(counters, 8192, 0).rpartition(b"\nTcp: ")[2].split(maxsplit=9)[8] != b"0"


class _Line:
    """A file of one line, of `width` blanks when it is empty, whose length changes only with that of the text."""

    def __init__(self, path: str, mode: int, *, width: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        self._size = os.fstat(self._fd).st_size
        if not self._size:
            self.write(" " * width)

    def write(self, text: str) -> None:
        """In place of what it holds. Raises OSError."""
        data = text.encode() + b"\n"
        os.pwrite(self._fd, data, 0)
        if len(data) != self._size:
            os.ftruncate(self._fd, len(data))
            self._size = len(data)


def _loopback(peer: str) -> bool:
    return peer.endswith("7F")  # little endian hexadecimal: the first byte comes last


def _loopback6(peer: str) -> bool:
    return peer == "0" * 24 + "01000000" or (peer.startswith("0" * 16 + "FFFF0000") and peer.endswith("7F"))


def _nothing(_tree: Tree) -> None:
    """A helper has no tree to let go of."""
