"""One sealed machine: it stands still whenever somebody outside has a say, and nothing reaches it while it runs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from stormcell.guest.sealed.mailbox import ANSWER, BLOCK, ORDER, REQUEST, STATUS, Order, Status, frames, framed
from stormcell.guest.sealed.stop import GO_BY, STOP
from stormcell.machine.machine import Machine
from stormcell.machine.model import ProcessIdentity
from stormcell.machine.pages import region
from stormcell.machine.sealed.argv import SealedSpec, sealed_argv
from stormcell.spec.errors import GuestProtocolError, MachineDied, MachineError

LOOK_S = 0.2
"""While it runs: so often the host looks at how far it is."""
Look = Callable[[], None]


@dataclass(frozen=True)
class Halt:
    """Why the machine stands still. `panic`: its kernel panicked, and nobody asked for a stop; then the rest is old."""

    status: Status
    panic: bool = False


class SealedMachine(Machine):
    """Made by `boot` or `restore`; then `order`, `go` and `answer` in turn."""

    def __init__(self, folder: Path, identity: ProcessIdentity, pidfd: int) -> None:
        super().__init__(folder, identity, pidfd)
        self._memory = -1
        self._box = 0
        self._orders = 0
        self._stops = 0
        self._read = 0

    @classmethod
    async def boot(cls, spec: SealedSpec, folder: Path) -> Self:
        """A machine that boots; `go` waits for its first stop. A failure leaves no process.

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
            machine._stops = machine.status_now().stops
        return machine

    @classmethod
    async def _made(cls, spec: SealedSpec, folder: Path, *, incoming: bool) -> Self:
        argv = partial(sealed_argv, incoming=incoming)
        machine = await cls._opened(lambda qemu, ends: argv(qemu, spec, ends), folder, incoming=incoming)
        async with machine._or_given_up():
            low, _ = region(machine.identity, spec.memory)
            machine._memory = os.open(f"/proc/{machine.identity.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            machine._box = low + spec.layout.box
        return machine

    def _on_event(self, event: dict[str, Any]) -> None:
        """A stop of the guest's looks like a panic, and is none of its ends."""
        if event.get("event") == "GUEST_PANICKED":
            self._log.add(event)
        else:
            super()._on_event(event)

    # -- what it is told while it stands still ------------------------------------------------------------------------

    def order(self, request: Mapping[str, Any], *, stop_at_passing: bool = False) -> None:
        """What it does next. With `stop_at_passing` it stands still at every event and beat."""
        text = json.dumps(request).encode("utf-8", "surrogateescape")
        self._order(text, stop_at_passing)
        self._read = 0

    def line(self, text: str, *, stop_at_passing: bool = False) -> None:
        """For the command that waits for one."""
        self._order(text.encode() + b"\n", stop_at_passing)

    def _order(self, text: bytes, stop_at_passing: bool) -> None:
        if len(text) > ANSWER - REQUEST:
            raise MachineError(f"a request of {len(text)} bytes does not fit", where=str(self.folder))
        self._orders += 1
        self._put(REQUEST, text)
        self._put(ORDER, Order(self._orders, len(text), STOP if stop_at_passing else GO_BY).pack())

    async def go(self, seconds: float, look: Look | None = None) -> Halt:
        """Let it run until it stands still again; `look` is called now and then meanwhile.

        Raises MachineDied, and MachineError when `seconds` of the host's time were not enough (it stands still then).
        """
        deadline = time.monotonic() + seconds
        stopped = self._log.expect(lambda event: event.get("event") == "STOP")
        try:
            await self._running().execute("cont")
            while not stopped.done():
                await asyncio.wait({stopped, self._watcher}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if self._watcher.done() or self._reason:
                    raise MachineDied("the sealed machine ended", where=str(self.folder), detail=self._why())
                if not stopped.done() and time.monotonic() > deadline:
                    await self._running().execute("stop")
                    raise MachineError(f"the sealed machine did not stop in {seconds:g} s", where=str(self.folder))
                if look is not None:
                    look()
        finally:
            stopped.cancel()
        status = self.status_now()
        panic, self._stops = status.stops == self._stops, status.stops
        return Halt(status, panic)

    def _why(self) -> str:
        return self._reason or self._qemu_words()

    async def reset(self) -> None:
        """Of a machine that stands still: its power goes off and on again, before it executes another instruction."""
        await self._running().execute("system_reset")

    async def save(self, state: Path) -> None:
        """Its device state, where it stands still; its memory is in its file if that is shared."""
        await self._write_state(state)

    # -- what it says -------------------------------------------------------------------------------------------------

    def status_now(self) -> Status:
        """Also while it runs."""
        try:
            return Status.unpack(self._get(STATUS, BLOCK))
        except ValueError:
            return Status(0, 0, 0, 0)

    def answer(self) -> list[tuple[int, bytes]]:
        """The frames that came since the last look. Also while it runs."""
        written = self.status_now().written
        if not self._read < written <= ANSWER * 8:
            return []
        found = list(frames(self._get(ANSWER + self._read, written - self._read)))
        self._read += sum(framed(len(data)) for _, data in found)
        return found

    def _get(self, place: int, size: int) -> bytes:
        try:
            data = os.pread(self._memory, size, self._box + place)
        except OSError as error:
            raise MachineDied("the sealed machine's memory is gone", where=str(self.folder), detail=str(error)) from error
        if len(data) != size:
            raise GuestProtocolError("the sealed machine's answer is cut short", where=str(self.folder))
        return data

    def _put(self, place: int, data: bytes) -> None:
        try:
            os.pwrite(self._memory, data, self._box + place)
        except OSError as error:
            raise MachineDied("the sealed machine's memory is gone", where=str(self.folder), detail=str(error)) from error

    async def close(self) -> None:
        """As a machine's."""
        memory, self._memory = self._memory, -1
        if memory >= 0:
            os.close(memory)
        await super().close()
