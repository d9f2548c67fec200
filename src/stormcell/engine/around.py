"""A fault around lines of a program: a plan in which the runner in the guest awaits those lines.

To the judge they are a probe that looks from the host, once: exit code 0 when they ended without an exception. So the
same rules hold as for an experiment: not in force, or never acted, is void; what is left after the undo is a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from stormcell.engine.compile import planned
from stormcell.engine.conductor import Conductor, OnEvent
from stormcell.engine.folder import RunFolder
from stormcell.guest import measure
from stormcell.sandbox.api import AsyncSandbox
from stormcell.sandbox.link import to_the_end
from stormcell.spec.errors import StormcellError
from stormcell.spec.experiment import Experiment
from stormcell.spec.plan import (
    ApplyStep,
    InventoryStep,
    NeedsStep,
    Plan,
    PlannedProbe,
    ProbeStep,
    Step,
    UndoStep,
    WaitStep,
)
from stormcell.spec.schedule import Disturbance
from stormcell.template.model import Template

LINES = "lines"
"""What the probe is called."""
UNDONE_S = 30.0
"""For the guest's watchdog, after the runner was lost."""


def plan_around(
    experiment: Experiment, disturbances: Sequence[Disturbance], *, where: str, template_digest: str = ""
) -> Plan:
    """The steps before the lines, the lines, and the steps after them. Pure."""
    (lines,) = experiment.steady_state
    steps: list[Step] = [NeedsStep(id=f"needs.{item.id}", phase="setup", fault=item.id) for item in disturbances]
    steps.append(InventoryStep(id="inventory.before", phase="before", label="before"))
    for item in disturbances:
        steps.append(ApplyStep(id=f"apply.{item.id}", phase="fault", on=_carrier(item), fault=item.id))
    bounds = lines.bounds("under")
    steps.append(ProbeStep(id=f"under.{LINES}", phase="under", on="host", probe=LINES, bounds=bounds))
    if any(item.schedule for item in disturbances):
        steps.append(WaitStep(id="schedules", phase="under", schedules=True))
    for item in reversed(disturbances):
        steps.append(UndoStep(id=f"undo.{item.id}", phase="undo", on=_carrier(item), fault=item.id))
        if item is not disturbances[0]:
            steps.append(InventoryStep(id=f"inventory.{item.id}", phase="undo", label="between"))
    steps.append(InventoryStep(id="inventory.undone", phase="end", label="undone"))
    return Plan(
        experiment=experiment.name,
        question=experiment.question,
        template=experiment.template,
        template_digest=template_digest,
        deadline_s=experiment.deadline,
        probes={LINES: PlannedProbe(kind="command", vantage="host", spec={"run": [where]})},
        faults={item.id: planned(item) for item in disturbances},
        steps=tuple(steps),
    )


def _carrier(item: Disturbance) -> Literal["guest", "host"]:
    return "host" if item.fault.on_machine else "guest"


class Around(Conductor):
    """Performs such a plan in a sandbox that is there, and leaves it alive.

    `in_force` is set when the lines' turn came. The sandbox is attached anew: what runs in it for others goes on, and
    to let go of it ends the runner.
    """

    def __init__(self, plan: Plan, template: Template, folder: RunFolder, on_event: OnEvent, sandbox: str) -> None:
        super().__init__(plan, template, folder, on_event)
        self._id = sandbox
        self._ended = False
        self._over: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self.in_force = asyncio.Event()

    def record(self, event: Mapping[str, Any]) -> None:
        """See Conductor."""
        self._ended = self._ended or event["event"] == "end"
        super().record(event)

    def lines_ended(self, seconds: float, error: BaseException | None) -> None:
        """They are over: without an exception, with one, or by Ctrl-C and the like (then the run is `unknown`)."""
        if self._over.done():
            return
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | asyncio.CancelledError):
            self._over.set_result({"stop": "interrupted", "text": f"{type(error).__name__} ended the lines"})
            return
        said = f"{type(error).__name__}: {error}"[:2000] if error is not None else ""
        facts = {"number": None, "matches": None, "out": "", "err": said}
        self._over.set_result({"sample": [0.0, round(seconds, 9), int(error is not None), facts]})

    async def _obtain(self) -> AsyncSandbox:
        return await AsyncSandbox.attach(self._id)

    async def _host_step(self, step: Step | None, ports: Mapping[str, int]) -> dict[str, Any]:
        if not isinstance(step, ProbeStep):
            return await super()._host_step(step, ports)
        self.in_force.set()
        said = await self._over
        if "stop" in said:
            return dict(said)
        bounds = [bound.model_dump() for bound in step.bounds]
        fields = measure.report("command", self.plan.probes[LINES].spec, step.phase, bounds, [said["sample"]])
        took = round(said["sample"][1], 6)
        self.host("probe", step=step.id, phase=step.phase, probe=LINES, vantage="host", took_s=took, **fields)
        return {"go": step.id}

    async def _release(self, sandbox: AsyncSandbox) -> None:
        """Let go. A runner that did not come to its end is killed by that, and the watchdog undoes what it began."""
        try:
            await self._stop_watching()
            if self._acts is not None:
                await self._acts.settle()
            self.folder.write("console.log", await sandbox.console())
        except StormcellError as error:
            self.host("release_failed", text=str(error))
        finally:
            await to_the_end(sandbox.close())
        if not self._ended:
            await to_the_end(self._see_it_undone())

    async def _see_it_undone(self) -> None:
        deadline = time.monotonic() + UNDONE_S
        left: object = "not known"
        with contextlib.suppress(StormcellError):
            sandbox = await AsyncSandbox.attach(self._id)
            try:
                while time.monotonic() < deadline:
                    said = await sandbox.exec(["stormcell-guest", "watchdog"], timeout=20)
                    left = json.loads(said.stdout or b"{}").get("receipts")
                    if left == []:
                        break
                    await asyncio.sleep(0.3)
            finally:
                await sandbox.close()
        self.host("let_go", sandbox=self._id, receipts_left=left)


def where_of(frame: Any) -> str:
    """The place in a program, its path relative to the working folder where that is shorter."""
    path = Path(frame.f_code.co_filename)
    with contextlib.suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return f"{path}:{frame.f_lineno}"
