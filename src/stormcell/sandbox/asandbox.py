"""AsyncSandbox: one microVM, for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self, overload

from stormcell.machine.channel import Orphan
from stormcell.machine.machine import Machine
from stormcell.machine.model import ExitEvidence
from stormcell.sandbox import execution, forking, layers, power, snapshots
from stormcell.sandbox.ending import end
from stormcell.sandbox.evidence import KillEvidence, already_gone
from stormcell.sandbox.execution import OnOutput, Stdin
from stormcell.sandbox.filesystem import AsyncFilesystem
from stormcell.sandbox.link import Link, to_the_end
from stormcell.sandbox.making import Made, Mark, Wishes, make
from stormcell.sandbox.memory import pss_bytes
from stormcell.sandbox.origin import Origin
from stormcell.sandbox.record import ID, Record, RecordTorn
from stormcell.sandbox.results import ExecResult
from stormcell.sandbox.running import AsyncCommand
from stormcell.sandbox.snapshots import Snapshot
from stormcell.sandbox.templates import OnProgress, resolve
from stormcell.spec.errors import SandboxNotFound
from stormcell.spec.home import Home
from stormcell.template.model import Template


class AsyncSandbox:
    """A microVM made from a template. Make it with `create`, find it again with `attach`, and `kill` it in the end.

    As a context manager it is killed at the end of the block. Left alone, it is killed when nothing has used it for
    `ttl_seconds`, also when this process is long gone. Use from one event loop.
    """

    def __init__(self, link: Link, record: Record, orphans: tuple[Orphan, ...] = ()) -> None:
        self.id = record.id
        self.folder = link.folder
        self.record = record
        self.ports: Mapping[str, int] = dict(record.ports)
        """Host ports on 127.0.0.1, by the names that were given in `open_ports`."""
        self.orphans = orphans
        """Commands that this fork goes on with, and whose callers get their answer from the machine it came from."""
        self.filesystem = AsyncFilesystem(link)
        self._link = link
        self._killed: KillEvidence | None = None

    @classmethod
    async def create(
        cls,
        template: str | Template = "base",
        *,
        ttl_seconds: float = 300,
        metadata: Mapping[str, str] | None = None,
        open_ports: Mapping[str, int] | None = None,
        raw: bool = False,
        detached: bool = False,
        progress: OnProgress | None = None,
        mark: Mark = lambda _: None,
    ) -> Self:
        """Restore the template's warmed snapshot copy-on-write; returns after the guest acknowledged `resumed`.

        `template` is a name, a recipe file or a Template; one that is missing or stale is built first, which takes a
        minute and is told to `progress`. `open_ports` maps names to guest TCP ports to reach from 127.0.0.1.
        `raw` leaves the guest as the snapshot has it: its clock lags, and its random numbers, hostname and machine id
        are those of its siblings. `detached` lets it live until its ttl when this process has ended, where gc would
        remove it. `mark` is told each step as it is done.

        A failed create leaves no process and no file. Raises SpecError, HostError, TemplateError, MachineError,
        SandboxError.
        """
        built = await resolve(template, progress)
        mark("template")
        wishes = Wishes.checked(ttl_seconds, metadata, open_ports, raw, detached)
        return cls.of(await make(Origin.of_template(built), wishes, mark))

    @classmethod
    async def restore(
        cls,
        snapshot: str,
        *,
        ttl_seconds: float = 300,
        metadata: Mapping[str, str] | None = None,
        raw: bool = False,
        detached: bool = False,
        mark: Mark = lambda _: None,
    ) -> Self:
        """A sandbox that goes on from a saved moment, as a child of a fork does; arguments as for `create`.

        Raises SnapshotNotFound, SnapshotBroken (every byte was read), TemplateError, HostError, MachineError.
        """
        home = Home.current()
        found = snapshots.read(home, snapshot)
        wishes = Wishes.checked(ttl_seconds, metadata, found.open_ports, raw, detached)
        async with layers.held(home.state):
            origin = await asyncio.to_thread(snapshots.origin_of, home, found)
            mark("verified")
            try:
                return cls.of(await make(origin, wishes, mark))
            finally:
                if origin.pages is not None:
                    origin.pages.close()

    @classmethod
    def of(cls, made: Made) -> Self:
        """One that lives already."""
        link = Link(made.folder, made.machine, made.record.ttl_seconds, made.channel)
        return cls(link, made.record, made.orphans)

    @classmethod
    async def attach(cls, sandbox: str) -> Self:
        """A sandbox that this or another process made, by its id. Raises SandboxNotFound."""
        folder = Home.current().sandboxes / sandbox
        try:
            record = Record.read(folder) if ID.match(sandbox) else None
        except RecordTorn as error:
            raise SandboxNotFound(
                "the sandbox's record is torn", where=str(folder), remedy="stormcell gc", detail=str(error)
            ) from error
        if record is None or record.state != "running":
            raise SandboxNotFound(
                f"there is no sandbox '{sandbox}'" if record is None else f"the sandbox is {record.state}",
                where=str(folder.parent),
                remedy="stormcell sandbox list",
            )
        machine = await Machine.attach(folder)
        link = Link(folder, machine, record.ttl_seconds)
        try:
            link.activity.touch()
            await forking.wake(machine, folder)
        except BaseException:
            await link.let_go()
            raise
        return cls(link, record)

    # -- copies ---------------------------------------------------------------------------------------------------

    @overload
    async def fork(
        self,
        count: None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        raw: bool = False,
        detached: bool = False,
        mark: Mark = ...,
    ) -> Self: ...

    @overload
    async def fork(
        self,
        count: int,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        raw: bool = False,
        detached: bool = False,
        mark: Mark = ...,
    ) -> list[Self]: ...

    async def fork(
        self,
        count: int | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        raw: bool = False,
        detached: bool = False,
        mark: Mark = lambda _: None,
    ) -> Self | list[Self]:
        """Copies of this sandbox that go on from this instant: memory, devices, disk and all that runs in it.

        Without `count` one child, with it a list of that many (at most 64), all or none. This sandbox stands still
        for some 50 ms and goes on. A child has its own disk, host ports (for the same guest ports), entropy,
        identity and clock, unless `raw`; its ttl is this one's unless given. Commands that run go on in the child as
        well: their callers hear of the one here, and the child lists its own as `orphans`. A fault that is in force
        is in force there too. This sandbox may be killed while its children live, and children may be forked.

        Raises SpecError, HostError (no room, or no access to the machine's memory), SandboxError (which child failed,
        and why), MachineDied.
        """
        number = 1 if count is None else count
        given = self.record.ttl_seconds if ttl_seconds is None else ttl_seconds
        wishes = Wishes.checked(given, metadata, self.record.open_ports, raw, detached)
        self._link.check()
        try:
            made = await forking.fork(self._link, self.record, number, wishes, mark)
        finally:
            self.record = forking.latest(self.record, self.folder)
        children = [type(self).of(each) for each in made]
        return children[0] if count is None else children

    async def snapshot(self, name: str, *, metadata: Mapping[str, str] | None = None) -> Snapshot:
        """Save this moment under a name, for `restore`; this sandbox goes on.

        Raises SpecError (no name, or taken), HostError, NoSpace, MachineError; a failure leaves nothing.
        """
        self._link.check()
        try:
            return await snapshots.save(self._link, self.record, name, metadata)
        finally:
            self.record = forking.latest(self.record, self.folder)

    # -- commands -------------------------------------------------------------------------------------------------

    async def exec(
        self,
        command: str | Sequence[str | bytes],
        *,
        cwd: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Stdin = None,
        user: str | None = None,
        timeout: float = 300.0,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        capture: bool = True,
        max_output: int | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end: text with /bin/sh, a sequence as it is.

        `timeout` in seconds on the guest's clock: then the whole process tree is killed and the result says
        `timed_out`. `max_output` (bytes, both outputs together) is 256 MiB unless `capture` is off; over it the tree is
        killed and OutputLimit raised. `user` is name, uid, name:group or uid:gid. `check` raises CommandFailed unless
        it ended with exit code 0 in time. The handlers get each piece and may be coroutine functions.

        Raises CommandNotStarted (no such program, user or folder: nothing ran), OutcomeUnknown (the guest was lost
        after it was asked: the command may have run), MachineDied, SandboxNotFound.
        """
        return await execution.execute(
            self._link,
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            user=user,
            timeout=timeout,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            capture=capture,
            max_output=max_output,
            check=check,
        )

    async def start(
        self,
        command: str | Sequence[str | bytes],
        *,
        cwd: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float = 300.0,
        stdin: bool = False,
    ) -> AsyncCommand:
        """Start a command and return while it runs; arguments and errors as for `exec`."""
        return await AsyncCommand.start(self._link, command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin)

    # -- the machine ----------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        """Stop the guest's processors and clocks. Its ttl goes on."""
        await power.pause(self._link)

    async def resume(self) -> None:
        """Let a paused guest go on. Its wall clock lags by the time that it was paused."""
        await power.resume(self._link)

    async def boot_id(self) -> str:
        """The guest kernel's name for its boot."""
        async with self._link.use() as channel:
            return (await channel.hello()).boot_id

    async def console(self, lines: int = 200) -> str:
        """The last lines of the guest's console, control characters made visible; also after its end."""
        if self._killed:
            return self._link.last_console
        return await self._link.machine.console(lines)

    @property
    def machine(self) -> Machine:
        """The virtual machine itself, for acts on it; another one after a cold boot."""
        return self._link.machine

    def machine_events(self) -> list[dict[str, Any]]:
        """What QEMU reported by itself, oldest first."""
        return self._link.machine.events

    async def wait_exit(self, timeout: float) -> ExitEvidence | None:
        """Wait until the machine ended by itself; None at the deadline (seconds)."""
        return await self._link.machine.wait_exit(timeout)

    async def power_cut(self) -> ExitEvidence:
        """End the machine at once, as a power cut does: what the guest had not written out is lost. Its files stay."""
        self._link.check()
        self._link.activity.touch()
        return await self._link.machine.kill()

    async def cold_boot(self, *, timeout: float = 120.0) -> None:
        """Boot again from the disk as the ended machine left it; returns when the agent answers.

        Services start as at any boot; their readiness is for the caller to ask. Raises MachineError, SandboxError.
        """
        self.record = await power.boot(self._link, self.record, timeout)

    def memory_pss(self) -> int:
        """Bytes of the machine's memory, pages that several share divided among them (PSS). 0 when it is gone."""
        return pss_bytes(self._link.machine.identity.pid)

    # -- the end --------------------------------------------------------------------------------------------------

    async def kill(self) -> KillEvidence:
        """End it now; returns when the process was seen dead and the files gone. Harmless when it is gone already."""
        if self._killed is None:
            self._killed = await end(self._link, "it was killed")
            return self._killed
        return already_gone(self.id, self.folder)

    async def close(self) -> None:
        """Let go without killing it; it lives until its ttl. Commands that this object still runs are killed."""
        self._link.closed = True
        await self._link.let_go()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await to_the_end(self.kill())
