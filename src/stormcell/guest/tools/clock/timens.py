"""Time namespaces: other monotonic clocks for a service that is started anew, or for a command.

A namespace is kept by a bind mount, as `ip netns` keeps its own; time_namespaces(7). No running process can be moved:
setns(2) into one is up to the process itself, so a service joins before it becomes its program (guest/service.py).
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from stormcell.guest import nodes, timens
from stormcell.guest.kernel import mount, unmount
from stormcell.guest.tools import common, processes, restart

CLOCKS = ("monotonic", "boottime")
SECOND = 10**9
TRIES = 5
GOOD_NS = 20_000_000


def make(mark: str, monotonic: str, boottime: str, service: str) -> dict[str, Any]:
    """A namespace with these offsets (ns); a service that is named (`-`: none) is stopped and started in it.

    Raises ValueError, OSError: the kernel takes no clock before 0, for example.
    """
    path = timens.held(mark)
    if os.path.lexists(path):
        raise ValueError(f"{path} is in the way: a fault of this name was not undone")
    if service != "-":
        service = nodes.service_key(service, nodes.current())
        restart.exists(service)
    os.makedirs(timens.FOLDER, mode=0o700, exist_ok=True)
    common.put_mark(_mark(mark), {"service": service})
    _hold(path, dict(zip(CLOCKS, (int(monotonic), int(boottime)), strict=True)))
    if service != "-":
        os.symlink(path, timens.of_service(service))
        restart.again(service)
    return show(mark)


def unmake(mark: str) -> dict[str, Any]:
    """The service lives in the machine's own time again, and the namespace is gone. Harmless a second time."""
    known = common.get_mark(_mark(mark))
    if known is None:
        return show(mark)
    service, path = known["service"], timens.held(mark)
    if service != "-" and os.path.islink(timens.of_service(service)):
        os.unlink(timens.of_service(service))
        restart.again(service)
    if os.path.lexists(path):
        unmount(path)
        os.unlink(path)
    common.drop_mark(_mark(mark))
    return show(mark)


def show(mark: str) -> dict[str, Any]:
    """The offsets inside, measured; and which processes are inside, by the kernel's name of the namespace."""
    known = common.get_mark(_mark(mark))
    path = timens.held(mark)
    if known is None or not os.path.exists(path):
        return {"made": False}
    inode = os.stat(path).st_ino
    members = [process.as_dict() for process in processes.everyone() if _inode(process.pid) == inode]
    service = known["service"].partition("@")[0]
    return {"made": True, "inode": inode, "members": members, "service": service, **_offsets(path)}


def run(mark: str, *argv: str) -> None:
    """Become `argv` in the namespace: for loads and probes of an experiment."""
    timens.enter(timens.held(mark))
    os.execvp(argv[0], argv)


def _offsets(path: str) -> dict[str, Any]:
    """The best of some tries, known to within `uncertain` ns: to look inside takes a process."""
    best: dict[str, Any] = {}
    for _ in range(TRIES):
        first = clocks()
        inside = within(path, clocks)
        last = clocks()
        uncertain = (last["monotonic"] - first["monotonic"]) // 2
        if not best or uncertain < best["uncertain"]:
            offsets = {name: inside[name] - (first[name] + last[name]) // 2 for name in inside}
            best = {"offsets": offsets, "uncertain": uncertain}
        if best["uncertain"] < GOOD_NS:
            break
    return best


def clocks() -> dict[str, int]:
    """As this process sees them, in ns."""
    return {
        "monotonic": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        "boottime": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "realtime": time.clock_gettime_ns(time.CLOCK_REALTIME),
    }


def within(path: str, body: Any) -> Any:
    """`body()` in a child that joined the namespace."""
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            timens.enter(path)
            os.write(write, json.dumps(body()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(pid, 0)
    if not text:
        raise ValueError("the time namespace cannot be entered")
    return json.loads(text)


def _hold(path: str, offsets: dict[str, int]) -> None:
    """A child makes the namespace and writes the offsets, while nobody is inside; the mount then keeps it."""
    read, write = os.pipe2(os.O_CLOEXEC)
    go, done = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(done)
        try:
            timens.make()
            for name, offset in offsets.items():
                with open("/proc/self/timens_offsets", "w", encoding="ascii") as file:
                    file.write(f"{name} {offset // SECOND} {offset % SECOND}\n")
            os.write(write, b"{}")
            os.read(go, 1)
        except OSError as error:
            told = common.describe(error)
            os.write(write, json.dumps({"error": told}).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.close(go)
    try:
        told = json.loads(os.read(read, 4096) or b'{"error": "it ended at once"}')
        if "error" in told:
            raise ValueError(f"the kernel refuses a time namespace with these offsets: {told['error']}")
        with open(path, "w", encoding="ascii"):
            pass
        mount(f"/proc/{pid}/ns/time_for_children", path, "none", 4096)
    finally:
        os.close(read)
        os.close(done)
        os.waitpid(pid, 0)


def _inode(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/time").st_ino
    except OSError:
        return 0


def _mark(mark: str) -> str:
    return f"timens-{mark}"


def main(argv: list[str]) -> int:
    """`timens make|unmake|show|run`."""
    return common.serve("timens", {"make": make, "unmake": unmake, "show": show, "run": run}, argv)
