"""One machine in which an experiment was set up, and forks of it that go on from that instant.

A search asks the same experiment again and again with one parameter of its fault changed. What comes before the fault
can then be made once: the machine is restored, its setup carried out, and each run goes on in a fork of it, from its
loads and its steady state before the fault. The log of each run begins with the events of the setup, so that its
verdict rests on all of them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from stormcell.engine.compile import compile_plan
from stormcell.engine.conductor import Conductor, OnEvent
from stormcell.engine.folder import RunFolder
from stormcell.engine.load import Loaded
from stormcell.sandbox.api import AsyncSandbox
from stormcell.spec.errors import StormcellError
from stormcell.spec.expansion import Path_
from stormcell.spec.plan import NeedsStep, Plan, RunStep
from stormcell.template.model import Template

LATER = ("fault", "faults", "steady_state", "load", "settle", "hold", "recovery", "abort", "ttl", "deadline")
"""Fields of an experiment that its setup does not depend on."""


class Warm:
    """The machine, once it is set up. Made with `warm_up`; `close` kills it."""

    def __init__(self, plan: Plan, sandbox: AsyncSandbox, events: list[dict[str, Any]], steps: int) -> None:
        self._plan = plan
        self._sandbox = sandbox
        self._events = events
        self._steps = steps

    def serves(self, plan: Plan) -> bool:
        """Whether a run of this plan may go on from here: it would have been set up in the same way."""
        ours, theirs = (_before(each) for each in (self._plan, plan))
        needs = [{name: fault.needs for name, fault in each.faults.items()} for each in (self._plan, plan)]
        return ours == theirs and needs[0] == needs[1] and plan.raw_state == self._plan.raw_state

    def conduct(self, plan: Plan, template: Template, folder: RunFolder, on_event: OnEvent) -> Conductor:
        """What performs a plan in a fork; in a machine of its own where it may not go on from here."""
        if not self.serves(plan):
            return Conductor(plan, template, folder, on_event)
        return _Forked(self, plan, template, folder, on_event)

    async def close(self) -> None:
        """The machine is not needed any more."""
        with contextlib.suppress(StormcellError):
            await self._sandbox.kill()

    async def child(self, metadata: Mapping[str, str], ttl_seconds: float, raw: bool) -> AsyncSandbox:
        """Another machine from the same instant."""
        return await self._sandbox.fork(metadata=metadata, ttl_seconds=ttl_seconds, raw=raw)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the guest said while it was set up."""
        return self._events

    @property
    def steps(self) -> int:
        """Steps that were carried out."""
        return self._steps


def worth_it(loaded: Loaded, field: Path_) -> bool:
    """Whether there is something to set up, and the search does not change it."""
    return bool(loaded.experiment.setup) and field[0] in LATER


async def warm_up(loaded: Loaded, template: Template, folder: RunFolder) -> Warm | None:
    """Restore a machine and carry out the experiment's setup. None when that failed: each run then tries by itself."""
    plan = compile_plan(loaded.experiment, loaded.disturbances, template_digest=template.digest)
    first = _Setup(plan, template, folder, lambda _: None)
    sandbox = await first.prepare()
    if sandbox is None:
        return None
    said = [event for event in first.events if event["on"] == "guest"]
    return Warm(plan, sandbox, said, len(_before(plan)))


def _before(plan: Plan) -> list[str]:
    """The steps that come before everything that a search may change, as data."""
    found = []
    for step in plan.steps:
        if not isinstance(step, NeedsStep | RunStep):
            break
        found.append(json.dumps(step.model_dump(mode="json"), sort_keys=True))
    return found


class _Setup(Conductor):
    """Performs the setup alone, and keeps the machine."""

    async def prepare(self) -> AsyncSandbox | None:
        """The machine; None when a step failed, and it is gone."""
        sandbox = await self._obtain()
        try:
            await self._segment(sandbox, 0, len(_before(self.plan)) - 1)
        except StormcellError as error:
            self.host("lost", code="host_error", text=str(error))
        except BaseException:
            await self._release(sandbox)
            raise
        finally:
            self.folder.close()
        if any(event["event"] in ("stop", "lost") for event in self.events):
            await self._release(sandbox)
            return None
        return sandbox


class _Forked(Conductor):
    """Performs a plan from after its setup, in a fork of the machine that was set up."""

    def __init__(self, warm: Warm, plan: Plan, template: Template, folder: RunFolder, on_event: OnEvent) -> None:
        super().__init__(plan, template, folder, on_event)
        self._warm = warm
        self._first = warm.steps

    async def _obtain(self) -> AsyncSandbox:
        for event in self._warm.events:
            self.record({key: value for key, value in event.items() if key != "h"})
        return await self._warm.child(self._metadata, self.plan.deadline_s + 60, self.plan.raw_state)
