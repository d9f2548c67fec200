"""One QEMU microVM: started or attached to, watched, saved, and ended with evidence."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stormcell.machine import console, network
from stormcell.machine.argv import CARD, DISK, NETWORK, forward_option, overlay_node, qemu_argv
from stormcell.machine.capture import Capture, capture
from stormcell.machine.channel import Channel
from stormcell.machine.events import ENDED, EventLog, end_reason
from stormcell.machine.host import tsc_khz
from stormcell.machine.launch import Argv, launch
from stormcell.machine.model import (
    AGENT_PORTS,
    ExitEvidence,
    Forward,
    MachineSpec,
    ProcessIdentity,
    Shape,
)
from stormcell.machine.pages import Pages, put_back, put_in, region
from stormcell.machine.process import has_ended, open_pidfd, process_state, read_identity, reap, wait_ended
from stormcell.machine.qmp import Monitor, open_for_reading, open_for_writing
from stormcell.machine.sockets import Slot
from stormcell.machine.tasks import to_the_end
from stormcell.spec.errors import MachineDied, MachineError, SandboxNotFound, StormcellError

__all__ = ["ExitEvidence", "Forward", "Machine", "MachineSpec", "ProcessIdentity", "Shape"]

LOAD_S = 60.0
"""Loading a device state takes milliseconds; a host that swaps may need longer."""
EVENT_S = 1.0
"""An event follows its command at once, or never: a machine that stood still already says nothing."""
FLATTEN_S = 600.0
"""Joining a disk's layers copies them: as long as a slow disk takes for what one guest wrote."""
DEATH_S = 30.0
"""A process that got SIGKILL is gone at once, unless the host's disk is stuck."""
CAPABILITIES = [{"capability": name, "state": True} for name in ("x-ignore-shared", "events")]


class Machine:
    """A running microVM. It outlives this object and this process: `kill` ends it, `close` only lets go.

    When the guest ends by itself (panic, reset, power off), QEMU stops and waits; the first process that holds a
    Machine then saves the console's last words, ends QEMU, and knows the reason.
    """

    def __init__(self, folder: Path, identity: ProcessIdentity, pidfd: int) -> None:
        self.folder = folder
        self.identity = identity
        self._pidfd = pidfd
        self._log = EventLog()
        self._monitor: Monitor | None = None
        self._forwards: tuple[Forward, ...] = ()
        self._reason = ""
        self._status: int | None = None
        self._ending: asyncio.Task[None] | None = None
        self._watcher = asyncio.create_task(self._watch())

    # -- beginnings -----------------------------------------------------------------------------------------------

    @classmethod
    async def start(cls, spec: MachineSpec, folder: Path, *, state: Path | None = None) -> Self:
        """Boot, or go on from a saved device state; the guest runs when this returns. A failure leaves no process.

        Raises MissingTool, PortTaken, MachineDied (QEMU's own words in `detail`), MachineError.
        """
        if state is None:
            return await cls._launched(spec, folder, incoming=False)
        machine = await cls.ahead(spec, folder)
        async with machine._or_given_up():
            await machine.load(spec.disk, state)
            await machine.cont()
        return machine

    @classmethod
    async def ahead(cls, spec: MachineSpec, folder: Path) -> Self:
        """A process that waits for `load`, its memory mapped and its disk empty; `spec.disk` is not looked at.

        Raises as `start` does; a failure leaves no process.
        """
        return await cls._launched(spec, folder, incoming=True)

    @classmethod
    async def _launched(cls, spec: MachineSpec, folder: Path, *, incoming: bool) -> Self:
        argv = partial(qemu_argv, spec=spec, tsc_khz=tsc_khz(), incoming=incoming)
        machine = await cls._opened(lambda qemu, ends: argv(qemu, ends=ends), folder, incoming=incoming)
        machine._forwards = spec.forwards
        return machine

    @classmethod
    async def _opened(cls, argv: Argv, folder: Path, *, incoming: bool) -> Self:
        launched = launch(argv, folder)
        machine = cls(folder, launched.identity, launched.pidfd)
        async with machine._or_given_up():
            machine._monitor = await Monitor.open(folder, machine._on_event)
            if incoming:
                # here and not in `load`, which others wait for: QEMU takes 10 us for each byte of a command
                await machine._monitor.execute("migrate-set-capabilities", {"capabilities": CAPABILITIES})
        return machine

    @contextlib.asynccontextmanager
    async def _or_given_up(self) -> AsyncIterator[None]:
        """Around a beginning: what fails ends the machine, and is raised with QEMU's own reason."""
        try:
            yield
        except BaseException as error:
            await self.given_up()
            if (explained := self.explained(error)) is not error:
                raise explained from error
            raise

    async def given_up(self) -> None:
        """End a machine that could not begin: dead and let go of when this returns. Harmless when repeated."""
        if self._pidfd < 0:
            return
        self._signal()
        await asyncio.shield(wait_ended(self._pidfd, DEATH_S))
        await self.close()

    @classmethod
    async def attach(cls, folder: Path) -> Self:
        """A machine that another process started. Raises SandboxNotFound when it is gone or its guest has ended."""
        identity = read_identity(folder)
        pidfd = open_pidfd(identity) if identity else None
        if identity is None or pidfd is None:
            raise SandboxNotFound(
                "the machine is gone", where=str(folder), detail=console.tail(folder / "console.log", 10)
            )
        machine = cls(folder, identity, pidfd)
        try:
            machine._monitor = await Monitor.open(folder, machine._on_event)
            status = await machine.status()
            if status in ENDED:
                machine._reason = ENDED[status]
                await machine._finish()
                raise SandboxNotFound(
                    f"the guest has ended ({machine._reason})", where=str(folder), detail=machine.console_tail(10)
                )
        except BaseException:
            await machine.close()
            raise
        return machine

    async def load(self, disk: Path, state: Path, own: tuple[Path, Pages | None] | None = None) -> None:
        """Make a waiting machine ready to go on from a saved device state, with `disk`; `cont` lets it run.

        `own` is the file behind its memory and the pages that differ from it; without pages the file was filled after
        the process began, and is made to be seen whole. Raises MachineError, HostError.
        """
        monitor = self._running()
        filling = asyncio.create_task(asyncio.to_thread(self._fill, *own)) if own else None
        try:
            await monitor.execute("blockdev-add", overlay_node(DISK, disk))
            # QEMU lets the drive of a device change while it waits (set_drive in hw/core/qdev-properties-system.c)
            where = {"path": f"/machine/peripheral/{CARD}", "property": "drive"}
            await monitor.execute("qom-set", where | {"value": DISK})
            await self._hand_over(state)
        finally:
            if filling is not None:
                await to_the_end(filling)
        await self._take_state()

    async def _hand_over(self, state: Path) -> None:
        """Give QEMU the file of a device state."""
        fd = open_for_reading(state)
        try:
            await self._running().pass_fd("state", fd)
        finally:
            os.close(fd)

    async def _take_state(self) -> None:
        """Go on from the device state that was handed over."""
        done = self._log.expect(_migration_over)
        await self._running().execute("migrate-incoming", {"uri": "fd:state"})
        await self._migration(done, "the saved state cannot be loaded")

    def _fill(self, memory: Path, pages: Pages | None) -> None:
        """See `load`. In a thread: it takes a millisecond for each MiB."""
        if pages is None:
            put_back(self.identity, memory)
        else:
            put_in(self.identity, region(self.identity, memory)[0], pages)

    async def _migration(self, done: asyncio.Future[dict[str, Any]], what: str) -> None:
        if (await self._until(done, what, LOAD_S))["data"]["status"] != "completed":
            raise MachineError(what, where=str(self.folder), detail=self._qemu_words())

    async def _until(self, done: asyncio.Future[dict[str, Any]], what: str, timeout: float) -> dict[str, Any]:
        """The event. Raises MachineDied when QEMU is gone first, MachineError at the deadline (seconds)."""
        waiting: set[asyncio.Future[Any]] = {done, self._watcher}
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            done.cancel()
            kind = MachineDied if self._watcher.done() else MachineError
            raise kind(what, where=str(self.folder), detail=self._qemu_words())
        return done.result()

    # -- what it says ---------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[dict[str, Any]]:
        """QMP events seen by this object, oldest first (the last 1000)."""
        return self._log.all()

    def _on_event(self, event: dict[str, Any]) -> None:
        self._log.add(event)
        reason = end_reason(event)
        if reason and not self._reason:
            self._reason = reason
            self._ending = asyncio.create_task(self._finish())

    async def _finish(self) -> None:
        """The guest has ended: keep its last words, then end the process."""
        await self._keep_console()
        self._signal()
        await wait_ended(self._pidfd, DEATH_S)

    async def _keep_console(self) -> None:
        if self._monitor is not None:
            try:
                await console.drain(self._monitor, self.folder, timeout=2)
            except (StormcellError, OSError):
                pass  # a stuck or dead QEMU, or a full disk: what was kept before is what there is

    async def console(self, lines: int = 40) -> str:
        """The console's last lines as of now."""
        await self._keep_console()
        return self.console_tail(lines)

    def console_tail(self, lines: int = 40) -> str:
        """The last lines that were read from the console; control characters are made visible.

        `console`, `kill`, `close` and the guest's own end read it; nothing else does.
        """
        return console.tail(self.folder / "console.log", lines)

    def _qemu_words(self) -> str:
        return console.tail(self.folder / "qemu.log", 20)

    def explained(self, error: BaseException) -> BaseException:
        """The reason that QEMU gave for ending at once, if it gave one; else `error` itself."""
        if not isinstance(error, StormcellError):
            return error
        words = self._qemu_words()
        if refused := network.refused_port(words):
            return refused
        if isinstance(error, MachineDied | SandboxNotFound) and words:
            return MachineDied("QEMU ended at once", where=str(self.folder), detail=words)
        return error

    async def status(self) -> str:
        """QEMU's run state: `running`, `paused`, ... Raises MachineDied."""
        return str((await self._running().execute("query-status"))["status"])

    async def ports(self) -> dict[str, int]:
        """Forward name -> port on 127.0.0.1. Only the object that started the machine knows the names."""
        if not self._forwards:
            return {}
        usernet = await self._running().execute("human-monitor-command", {"command-line": "info usernet"})
        try:
            return network.real_ports(str(usernet), self._forwards)
        except (KeyError, IndexError) as error:
            raise MachineError("QEMU does not show the forwarded ports", detail=str(usernet)) from error

    async def channel(self, timeout: float = 30.0, *, forked: bool = False) -> Channel:
        """A channel to the guest's agent on a free port. Raises SandboxError when all are in use."""
        slot = Slot.take(self.folder, "agent", AGENT_PORTS)
        try:
            return await Channel.connect(slot.path, timeout, on_close=slot.release, forked=forked)
        except BaseException:
            slot.release()
            raise

    # -- what it is told ------------------------------------------------------------------------------------------

    def _running(self) -> Monitor:
        if self._monitor is None or has_ended(self._pidfd):
            raise MachineDied("the machine is gone", where=str(self.folder), detail=self._reason)
        return self._monitor

    async def pause(self) -> int:
        """Stop the guest's processors and its clocks; when they stood still, in ns of the host's wall clock."""
        return await self._timed("stop", "STOP")

    async def cont(self) -> int:
        """Let a paused guest go on; when it did, as `pause` does."""
        return await self._timed("cont", "RESUME")

    async def _timed(self, command: str, event: str) -> int:
        """QEMU says itself when it was; without an event nothing changed, and now is as good."""
        monitor = self._running()
        seen = self._log.expect(lambda heard: heard.get("event") == event)
        try:
            await monitor.execute(command)
            async with asyncio.timeout(EVENT_S):
                stamp = (await seen)["timestamp"]
            return int(stamp["seconds"]) * 1_000_000_000 + int(stamp["microseconds"]) * 1000
        except TimeoutError:
            return time.time_ns()
        finally:
            seen.cancel()

    async def set_link(self, up: bool) -> None:
        """Plug the network cable in, or pull it: the guest's card loses its carrier."""
        await self._running().execute("set_link", {"name": NETWORK, "up": up})

    def freeze(self) -> None:
        """SIGSTOP the whole process: nothing of it runs any more, its clocks go on as the host's do."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT; harmless when it runs or is gone."""
        self._send(signal.SIGCONT)

    def frozen(self) -> bool:
        """Does the host's kernel show the process as stopped?"""
        return process_state(self.identity) == "T"

    async def forward(self, forwards: Sequence[Forward]) -> None:
        """Open guest ports on 127.0.0.1. Raises PortTaken, MachineError."""
        for forward in forwards:
            words = f"hostfwd_add {NETWORK} {forward_option(forward).removeprefix('hostfwd=')}"
            said = str(await self._running().execute("human-monitor-command", {"command-line": words})).strip()
            if said:
                raise network.refused_port(said) or MachineError("the port cannot be opened", detail=said)
        self._forwards += tuple(forwards)

    async def disk_node(self) -> tuple[str, Path]:
        """The node that the guest writes to, and its file."""
        for device in await self._running().execute("query-block"):
            if CARD in str(device.get("qdev", "")).split("/"):
                name = str(device["inserted"]["file"])
                if name.startswith("json:"):  # so when the overlay's header names its backing file otherwise than QEMU
                    name = str(json.loads(name.removeprefix("json:"))["file"]["filename"])
                return str(device["inserted"]["node-name"]), Path(name)
        raise MachineError("QEMU shows no disk of this machine", where=str(self.folder))

    async def flatten(self, base: Path) -> None:
        """Pull all that lies between the active overlay and `base` into the overlay, while the guest runs.

        Raises MachineError, MachineDied. Interrupted, it leaves an overlay that is as right as before.
        """
        node, _ = await self.disk_node()
        done = self._log.expect(lambda event: _job_over(event, "flatten"))
        arguments = {"job-id": "flatten", "device": node, "base": str(base), "auto-dismiss": True}
        await self._running().execute("block-stream", arguments)
        event = await self._until(done, "the disk's layers cannot be joined", FLATTEN_S)
        if event["event"] != "BLOCK_JOB_COMPLETED" or "error" in event["data"]:
            raise MachineError("the disk's layers cannot be joined", where=str(self.folder), detail=str(event["data"]))

    async def capture(self, memory: Path, state: Path, overlay: Path) -> Capture:
        """Stop the guest for a moment: device state to `state`, its own pages to a memory file, its disk frozen.

        From then on the guest writes to `overlay`, an empty qcow2 file over the file that `disk_node` showed before.
        One that was paused stays so. Raises HostError, MachineError, MachineDied; whatever happened, the guest runs
        on afterwards if it ran before, and writes to the old disk unless the new one took its place.
        """
        disk = await self.disk_node()
        return await capture(self._running(), self.identity, disk, memory, state, overlay, self.pause, self.cont)

    async def save_state(self, path: Path) -> int:
        """Stop the guest and write its device state to `path`; RAM is already in the shared memory file.

        The guest stays stopped; returns when it was, by the host's wall clock in ns. Raises MachineError.
        """
        stopped = await self.pause()
        await self._write_state(path)
        return stopped

    async def _write_state(self, path: Path) -> None:
        """Of a guest that stands still."""
        monitor = self._running()
        await monitor.execute("migrate-set-capabilities", {"capabilities": CAPABILITIES})
        fd = open_for_writing(path)
        try:
            await monitor.pass_fd("state", fd)
            done = self._log.expect(_migration_over)
            await monitor.execute("migrate", {"uri": "fd:state"})
            await self._migration(done, "the device state cannot be saved")
            os.fsync(fd)
        finally:
            os.close(fd)

    async def kill(self) -> ExitEvidence:
        """SIGKILL; returns when the process was seen dead. Harmless when it already is."""
        if not has_ended(self._pidfd):
            await self._keep_console()
            self._reason = self._reason or "SIGKILL"
            self._signal()
        evidence = await self.wait_exit(DEATH_S)
        if evidence is None:
            raise MachineError(
                f"the process {self.identity.pid} did not end {DEATH_S:g} s after SIGKILL",
                where=str(self.folder),
                remedy="its disk or memory is stuck in the host's kernel; look at the host's log",
            )
        return evidence

    def _signal(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._pidfd < 0:
            return  # closed: it is nobody's to signal any more
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    # -- ends -----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Reap the process when it ends, whoever ended it."""
        while not await wait_ended(self._pidfd, 3600):
            pass
        self._status = reap(self._pidfd)

    @property
    def ended(self) -> bool:
        """Whether its process is gone, or let go of."""
        return self._pidfd < 0 or has_ended(self._pidfd)

    async def wait_exit(self, timeout: float) -> ExitEvidence | None:
        """Evidence once the process is gone; None at the deadline (seconds)."""
        began = time.monotonic()
        await asyncio.wait({self._watcher}, timeout=timeout)
        if not self._watcher.done():
            return None
        if self._status == -signal.SIGKILL and not self._reason:
            self._reason = "SIGKILL"
        return ExitEvidence(
            self.identity.pid,
            self.identity.start_time,
            process_gone=open_gone(self.identity),
            status=self._status,
            reason=self._reason or "gone",
            waited_s=round(time.monotonic() - began, 6),
        )

    async def close(self) -> None:
        """Let go of the sockets and descriptors. The machine runs on."""
        if self._pidfd < 0:
            return
        if self._ending is not None:
            await asyncio.wait({self._ending}, timeout=DEATH_S)
        if self._monitor is not None:
            if not has_ended(self._pidfd):
                await self._keep_console()
            await self._monitor.close()
            self._monitor = None
        if has_ended(self._pidfd):
            await asyncio.wait({self._watcher}, timeout=5)
        self._watcher.cancel()
        await asyncio.wait({self._watcher})
        pidfd, self._pidfd = self._pidfd, -1
        os.close(pidfd)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.kill()
        finally:
            await self.close()


def open_gone(identity: ProcessIdentity) -> bool:
    """Whether nobody has this identity any more."""
    fd = open_pidfd(identity)
    if fd is None:
        return True
    os.close(fd)
    return False


def _migration_over(event: dict[str, Any]) -> bool:
    return event.get("event") == "MIGRATION" and event["data"]["status"] in {"completed", "failed", "cancelled"}


def _job_over(event: dict[str, Any], job: str) -> bool:
    return event.get("event") in {"BLOCK_JOB_COMPLETED", "BLOCK_JOB_CANCELLED", "BLOCK_JOB_ERROR"} and (
        event["data"]["device"] == job
    )
