"""One sealed machine: it stands still whenever somebody outside has a say, and nothing reaches it while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from stormcell.guest.sealed.mailbox import (
    ANSWER,
    GATE,
    GO_BY,
    ORDER,
    PAGE,
    PASSING,
    REQUEST,
    SIZE,
    STATUS,
    STOP,
    WRITTEN,
    Order,
    Status,
    framed,
    frames,
    tsc_of,
)
from stormcell.guest.sealed.stop import GATES
from stormcell.machine.argv import Ends
from stormcell.machine.disk import writing
from stormcell.machine.events import end_reason
from stormcell.machine.machine import Machine
from stormcell.machine.model import ProcessIdentity
from stormcell.machine.pages import region
from stormcell.machine.qmp import Monitor
from stormcell.machine.sealed.argv import CONSOLE_NAME, SealedSpec, sealed_argv
from stormcell.machine.sealed.gates import Gates
from stormcell.machine.sealed.state import settle
from stormcell.spec.errors import GuestProtocolError, HostError, MachineDied, MachineError, StormcellError
from stormcell.spec.home import private_folder

DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--", "/bin/sh", "-c", 'test "$PPID" = "$0" && exec "$@"')
"""Who holds its gates is the only one who can let it go on: without them it would stand for ever.

A parent that died before it was asked for tells nobody (PR_SET_PDEATHSIG, prctl(2)): who is there is looked at after.
"""
LOOK_S = 0.2
"""While it runs: so often the host looks at how far it is."""
MOST_CONSOLE = 64 << 20
Look = Callable[[], None]


@dataclass(frozen=True)
class Halt:
    """Where the machine stands still. `stopped`: QEMU has stopped it, which somebody had asked for."""

    status: Status
    stopped: bool = False


class SealedMachine(Machine):
    """Made by `boot` or `restore`; then `order`, `go` and `answer` in turn. It ends with the thread that made it.

    While the guest stands at a gate QEMU's main loop waits as well: then only its memory can be talked to.
    """

    def __init__(self, folder: Path, identity: ProcessIdentity, pidfd: int) -> None:
        super().__init__(folder, identity, pidfd)
        self._gates: Gates | None = None
        self._at: int | None = None
        self._memory = -1
        self._box = 0
        self._orders = 0
        self._read = 0
        self._down = ""
        self._asked = False
        """Whether it was told to have QEMU stop it."""

    @classmethod
    async def boot(cls, spec: SealedSpec, folder: Path) -> Self:
        """A machine at its power-on; `go` waits for its first stop. A failure leaves no process.

        Raises MissingTool, HostError, MachineDied, MachineError.
        """
        return await cls._made(spec, folder, incoming=False)

    @classmethod
    async def restore(cls, spec: SealedSpec, folder: Path, state: Path) -> Self:
        """A machine that stands still where `state` was saved. A failure leaves no process. Raises as `boot` does."""
        machine = await cls._made(spec, folder, incoming=True)
        async with machine._or_given_up():
            await machine._hand_over(state)
            await machine._take_state()
            machine._read = machine.status_now().written
            machine._orders = Order.unpack(machine._get(ORDER, PAGE)).orders
        return machine

    @classmethod
    async def _made(cls, spec: SealedSpec, folder: Path, *, incoming: bool) -> Self:
        folder = private_folder(folder).absolute()  # QEMU has a working folder of its own
        try:
            gates = Gates(folder)
        except OSError as error:
            raise HostError("the machine's pipes cannot be made", where=str(folder), detail=str(error)) from error

        def argv(qemu: Path, ends: Ends) -> list[str]:
            return [*DIES_WITH_US, str(os.getpid()), *sealed_argv(qemu, spec, ends, folder, incoming=incoming)]

        try:
            machine = await cls._opened(argv, folder, incoming=incoming)
        except BaseException:
            gates.close()
            raise
        machine._gates = gates
        async with machine._or_given_up():
            low, _ = region(machine.identity, spec.memory)
            machine._memory = os.open(f"/proc/{machine.identity.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            machine._box = low + spec.layout.box
        return machine

    def _on_event(self, event: dict[str, Any]) -> None:
        """A stop that was asked for looks like a panic, and is no end; at an end QEMU stops, and is kept."""
        if _ends(event) and not (self._asked and event["event"] == "GUEST_PANICKED"):
            self._down = end_reason(event) or "shutdown"
        self._log.add(event)

    async def _keep_console(self) -> None:
        """It is in its file."""

    @property
    def at_gate(self) -> bool:
        """Whether the guest stands at a gate; then QEMU says nothing."""
        return self._at is not None

    # -- what it is told while it stands still ------------------------------------------------------------------------

    def order(self, request: Mapping[str, Any], *, passing: int = GO_BY) -> None:
        """What it does next. With `STAND` for `passing` it stands still at every event and beat, too."""
        self._read = 0
        self._put(WRITTEN, bytes(8))  # of the last answer: the guest tells of the new one when there is something
        self._order(json.dumps(request).encode("utf-8", "surrogateescape"), passing)

    def line(self, text: str, *, passing: int = GO_BY) -> None:
        """For the command that waits for one."""
        self._order(text.encode() + b"\n", passing)

    def _order(self, text: bytes, passing: int) -> None:
        if len(text) > ANSWER - REQUEST:
            raise MachineError(f"a request of {len(text)} bytes does not fit", where=str(self.folder))
        self._orders += 1
        self._put(REQUEST, text)
        self._put(ORDER, Order(self._orders, len(text), passing).pack())

    async def go(self, seconds: float, look: Look | None = None) -> Halt:
        """Let it run until it stands still again; `look` is called now and then meanwhile.

        Raises MachineDied, also when the guest went down, and MachineError when `seconds` of the host's time were not
        enough (QEMU is stopped then).
        """
        halt = await self._go(seconds, look)
        if self._down:
            raise MachineDied(f"the guest went down ({self._down})", where=str(self.folder))
        return halt

    async def go_down(self, seconds: float) -> dict[str, Any]:
        """Let it run to the end that it was told of: the event that QEMU reports. Raises as `go` does."""
        ended = self._log.expect(_ends)
        try:
            await self._go(seconds)
            if not ended.done():
                raise MachineError("the guest did not go down", where=str(self.folder))
            return ended.result()
        finally:
            ended.cancel()

    async def _go(self, seconds: float, look: Look | None = None) -> Halt:
        assert self._gates is not None
        deadline = time.monotonic() + seconds
        stopped = self._log.expect(lambda event: event.get("event") == "STOP")
        self._gates.rings.clear()
        rings = asyncio.create_task(self._gates.rings.wait())
        try:
            await self._let_go(self._gates)
            waiting: set[asyncio.Future[Any]] = {stopped, rings, self._watcher}
            while not stopped.done() and not rings.done():
                await asyncio.wait(waiting, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if self._watcher.done() or self._reason:
                    raise MachineDied("the sealed machine ended", where=str(self.folder), detail=self._why())
                if not stopped.done() and not rings.done() and time.monotonic() > deadline:
                    await self._running().execute("stop")
                    raise MachineError(
                        f"the sealed machine did not stop in {seconds:.0f}s of this host's time", where=str(self.folder)
                    )
                if look is not None:
                    look()
                self._check_console()
            if rings.done():
                self._at = self._gate_now()
                self._gates.shut(next(port for port in GATES if port != self._at))
        finally:
            rings.cancel()
            stopped.cancel()
        status = self.status_now()
        return Halt(status, stopped=not rings.done())

    def _check_console(self) -> None:
        if (self.folder / CONSOLE_NAME).stat().st_size > MOST_CONSOLE:
            raise MachineError(
                f"the guest wrote more than {MOST_CONSOLE >> 20} MiB on its console", where=str(self.folder)
            )

    async def _let_go(self, gates: Gates) -> None:
        at, self._at = self._at, None
        if at is not None:
            gates.open(at)
        else:
            # not awaited: the guest may stand at its gate, and QEMU with it, before QEMU has answered
            self._going = asyncio.create_task(self._cont(self._running()))

    async def stop(self, seconds: float = 60.0) -> None:
        """Of a guest that stands at a gate: have QEMU stop it as a whole, so that it can be talked to and saved.

        It goes on from there with `go`, which takes an order that is given meanwhile. Raises as `go` does.
        """
        self._put(PASSING, struct.pack("<Q", STOP))
        self._asked = True
        try:
            halt = await self.go(seconds)
        finally:
            self._asked = False
        if not halt.stopped:
            raise MachineError("the sealed machine did not stop", where=str(self.folder))

    @staticmethod
    async def _cont(monitor: Monitor) -> None:
        with contextlib.suppress(StormcellError):
            await monitor.execute("cont", timeout=7 * 24 * 3600.0)

    def _why(self) -> str:
        return self._reason or self._qemu_words()

    async def save(self, state: Path) -> None:
        """The device state of a machine that was stopped; its memory is in its file if that is shared.

        Raises MachineError, HostError.
        """
        # a machine that records is not migrated; this saves the same sections
        await self._running().execute("xen-save-devices-state", {"filename": str(state), "live": False})
        with writing("the device state cannot be written", state):
            settle(state, tsc_of(self._get(STATUS, PAGE)))

    # -- what it says -------------------------------------------------------------------------------------------------

    def status_now(self) -> Status:
        """Also while it runs."""
        try:
            return Status.unpack(self._get(STATUS, PAGE))
        except ValueError:
            return Status(0, 0, 0, 0)

    def answer(self) -> list[tuple[int, bytes]]:
        """The frames that came since the last look. Also while it runs."""
        written = self.status_now().written
        if not self._read < written <= SIZE - ANSWER:
            return []
        found = list(frames(self._get(ANSWER + self._read, written - self._read)))
        self._read += sum(framed(len(data)) for _, data in found)
        return found

    def _gate_now(self) -> int:
        (port,) = struct.unpack_from("<I", self._get(STATUS, PAGE), GATE)
        return int(port)

    def _get(self, place: int, size: int) -> bytes:
        try:
            data = os.pread(self._memory, size, self._box + place)
        except OSError as error:
            raise MachineDied(
                "the sealed machine's memory is gone", where=str(self.folder), detail=str(error)
            ) from error
        if len(data) != size:
            raise GuestProtocolError("the sealed machine's answer is cut short", where=str(self.folder))
        return data

    def _put(self, place: int, data: bytes) -> None:
        try:
            os.pwrite(self._memory, data, self._box + place)
        except OSError as error:
            raise MachineDied(
                "the sealed machine's memory is gone", where=str(self.folder), detail=str(error)
            ) from error

    def _gone(self, error: OSError) -> MachineDied:
        return MachineDied("the sealed machine's memory is gone", where=str(self.folder), detail=str(error))

    async def close(self) -> None:
        """As a machine's."""
        memory, self._memory = self._memory, -1
        if memory >= 0:
            os.close(memory)
        if self._gates is not None:
            self._gates.close()
        await super().close()


def _ends(event: dict[str, Any]) -> bool:
    """A guest with a driver for it tells of its own panics through the panic device."""
    return event.get("event") in ("SHUTDOWN", "GUEST_PANICKED")
