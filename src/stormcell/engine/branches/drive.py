"""One machine is driven to its moment and stands still there; as many others as are wanted go on from that instant.

    async with Drive(plan, template, folder, on_event) as drive:
        if drive.there:
            await drive.branch(plan_of_a_branch, its_folder, on_event)

The plans are those of plans.py. The machine that was driven is paused for good: it takes no processor time, each fork
of it begins at the very same instant, and it is ended with the block.
"""

from __future__ import annotations

from typing import Any, Self

from stormcell.engine.conductor import Conductor, OnEvent
from stormcell.engine.folder import RunFolder
from stormcell.sandbox.api import AsyncSandbox
from stormcell.spec.errors import StormcellError
from stormcell.spec.plan import Plan
from stormcell.template.model import Template

SPARE_S = 120.0
LONGEST_S = 7 * 24 * 3600.0


class _Driver(Conductor):
    """Stops before the fork. Its runner goes on in every fork, so it is given time for what is done there as well."""

    def _command(self, start: int) -> tuple[str, float]:
        return "run-plan", min(LONGEST_S, 2 * self.plan.deadline_s + SPARE_S)


class _Follower(Conductor):
    """Goes on in a fork, with the runner that was driven there."""

    def __init__(self, parent: AsyncSandbox, plan: Plan, template: Template, folder: RunFolder, tell: OnEvent) -> None:
        super().__init__(plan, template, folder, tell)
        self._parent = parent

    async def _obtain(self) -> AsyncSandbox:
        self.host("fork", parent=self._parent.id)
        seconds = self.plan.deadline_s + 60
        return await self._parent.fork(metadata=self._metadata, ttl_seconds=seconds, raw=self.plan.raw_state)

    @property
    def _metadata(self) -> dict[str, str]:
        """Of the whole experiment's run."""
        return {**super()._metadata, "run": self.folder.path.parent.parent.name}

    def _command(self, start: int) -> tuple[str, float]:
        """After a crash there is no runner to be joined."""
        command, seconds = super()._command(start)
        return (command if start else "join"), seconds


class Drive:
    """Use as a context manager. `there`: the moment came, and the machine stands still at it."""

    def __init__(self, plan: Plan, template: Template, folder: RunFolder, on_event: OnEvent) -> None:
        self._template = template
        self._driver = _Driver(plan, template, folder, on_event)
        self.there = False

    @property
    def events(self) -> list[dict[str, Any]]:
        """Of the drive."""
        return self._driver.events

    @property
    def refused(self) -> bool:
        """This host has no machine for it: nothing was begun."""
        return self._driver.refused

    async def __aenter__(self) -> Self:
        """Raises what the host lacked when no machine could be made; another failure is an event."""
        try:
            await self._driver.carry_out()
            if self._driver.at_fork:
                await self._stand_still()
        except BaseException:
            await self._driver.release()
            raise
        return self

    async def _stand_still(self) -> None:
        sandbox = self._driver.sandbox
        assert sandbox is not None
        try:
            await sandbox.pause()
        except StormcellError as error:
            self._driver.host("lost", code="host_error", text=str(error))
            return
        self._driver.host("paused", sandbox=sandbox.id)
        self.there = True

    async def __aexit__(self, *_: object) -> None:
        await self._driver.release()

    async def branch(self, plan: Plan, folder: RunFolder, on_event: OnEvent) -> list[dict[str, Any]]:
        """Carry out `plan` in a machine of its own that goes on from the instant. Returns its events.

        The machine is gone when this returns or raises. Raises what the host lacked for one more machine.
        """
        assert self.there and self._driver.sandbox is not None
        follower = _Follower(self._driver.sandbox, plan, self._template, folder, on_event)
        try:
            await follower.perform()
        finally:
            folder.close()
        return follower.events

    def interrupted(self) -> None:
        """Somebody stopped the whole while branches were under way."""
        self._driver.host("lost", code="interrupted", text="the run was interrupted on the host")
