"""What every use of a sandbox needs: a channel to its agent, a renewed lease, and errors that say what became of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from stormcell.machine.channel import Channel
from stormcell.machine.machine import Machine
from stormcell.machine.tasks import to_the_end as to_the_end
from stormcell.sandbox import lease
from stormcell.sandbox.activity import Activity
from stormcell.spec.errors import (
    GuestProtocolError,
    MachineDied,
    OutcomeUnknown,
    SandboxError,
    SandboxNotFound,
)

DEATH_SHOWS_S = 2.0
"""When a channel breaks because the guest ended, QEMU's own event or end follows within this."""


class Link:
    """One process's connection to one sandbox. Several pieces of work share its channel."""

    def __init__(self, folder: Path, machine: Machine, ttl_seconds: float, channel: Channel | None = None) -> None:
        self.folder = folder
        self.machine = machine
        self.activity = Activity(folder, ttl_seconds)
        self._channel = channel
        self._connecting = asyncio.Lock()
        self.gone = ""
        self.closed = False
        self.last_console = ""

    def check(self) -> None:
        """Whether it can be used. Raises SandboxNotFound when it is gone, SandboxError when this end was let go."""
        if self.gone:
            raise SandboxNotFound(f"the sandbox is gone: {self.gone}", where=self.folder.name)
        if self.closed:
            raise SandboxError(
                "this object has let go of the sandbox", where=self.folder.name, remedy="attach to it again by its id"
            )

    @property
    def paused(self) -> bool:
        """Whether somebody, in this process or another, paused it."""
        return (self.folder / "paused").exists()

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Channel]:
        """Around one piece of work.

        Raises SandboxNotFound when the sandbox is gone, MachineDied when its guest ended, SandboxError while it is
        paused; OutcomeUnknown of the work itself gets the reason and the console's last words.
        """
        self.check()
        async with self.activity.work():
            if self.paused:
                raise SandboxError(
                    "the sandbox is paused; nothing was sent to it",
                    where=self.folder.name,
                    remedy=f"resume it first: stormcell sandbox resume {self.folder.name}",
                )
            channel = await self._connected()
            try:
                yield channel
            except OutcomeUnknown as error:
                raise await self._explained(error) from error

    async def _connected(self) -> Channel:
        async with self._connecting:
            if self._channel is None or self._channel.closed:
                if evidence := await self.machine.wait_exit(0):
                    raise MachineDied(
                        f"the guest ended by itself ({evidence.reason})",
                        where=self.folder.name,
                        detail=self.machine.console_tail(),
                    )
                self._channel = await self.machine.channel()
            return self._channel

    async def _explained(self, error: OutcomeUnknown) -> SandboxError:
        if isinstance(error, GuestProtocolError):
            return error
        evidence = await self.machine.wait_exit(DEATH_SHOWS_S)
        if evidence is None:
            return OutcomeUnknown(error.what, where=self.folder.name, detail=await self._console())
        found = lease.read(self.folder)
        if found is None or found.claimed:
            reason = found.claimed if found else self.gone or "it was killed"
            return OutcomeUnknown(f"the sandbox was removed during the work: {reason}", where=self.folder.name)
        return OutcomeUnknown(
            f"the guest ended during the work ({evidence.reason})",
            where=self.folder.name,
            detail=self.machine.console_tail(),
        )

    async def _console(self) -> str:
        """The last words of a guest that still runs."""
        try:
            return await self.machine.console(20)
        except (SandboxError, MachineDied, OSError):
            return ""

    async def replace(self, machine: Machine, channel: Channel) -> None:
        """Go on with another machine in the same folder."""
        await self.let_go()
        self.machine, self._channel = machine, channel

    async def let_go(self) -> None:
        """Hang up and release the monitor. Commands that still run for this link are killed by the guest."""
        if self._channel is not None:
            await self._channel.close()
        await self.machine.close()
