"""One fault in a sandbox, by the real runner and judged by the fault itself: what a run does, without probes."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stormcell.engine.compile import planned
from stormcell.engine.hostacts import HostActs
from stormcell.engine.load import disturbance
from stormcell.engine.receipts import receipt
from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.spec.fault import Command, Fault
from stormcell.spec.plan import (
    ApplyStep,
    InventoryStep,
    LoadStep,
    NeedsStep,
    Plan,
    PlannedProbe,
    ProbeStep,
    RunStep,
    Step,
    UndoStep,
    WaitStep,
)
from stormcell.spec.receipt import Receipt
from stormcell.spec.schedule import Disturbance
from stormcell.template.model import Template

ANY_EXIT = tuple(range(256))


@dataclass(frozen=True)
class Trial:
    """What came of it. `said` are the outputs of the commands under the fault, `stop` why it ended early."""

    fault: Fault
    receipt: Receipt
    events: list[dict[str, Any]]

    @property
    def said(self) -> list[str]:
        return [str(e["out"]) + str(e["err"]) for e in self.events if str(e.get("step")).startswith("under.")
                and e["event"] == "output"]  # fmt: skip

    @property
    def stop(self) -> str:
        return next((str(e["text"]) for e in self.events if e["event"] == "stop"), "")

    @property
    def acted(self) -> int:
        assert self.receipt.acted is not None
        return self.receipt.acted

    @property
    def left(self) -> list[dict[str, Any]]:
        """What the inventories find different."""
        return next(e["differences"] for e in self.events if e["event"] == "inventory" and "differences" in e)

    def proven(self) -> None:
        """In force, acted, and nothing left."""
        judged = self.receipt
        assert (judged.apply_ok, judged.in_force, judged.clean, judged.undo_ok) == (True, True, True, True), self.stop
        assert judged.acted, judged.notes


def shell(text: str, seconds: float = 60.0) -> Command:
    return Command(argv=("/bin/sh", "-c", text), timeout_s=seconds, accept=ANY_EXIT)


def until(condition: str) -> str:
    """Shell text: look again and again, until the time of the command is over."""
    return f"until {condition}; do sleep 0.05; done"


def plan_of(
    item: Disturbance,
    setup: Sequence[str],
    loads: Sequence[str],
    under: Sequence[str],
    settle: float,
    inventory: bool = False,
    ready: str = "",
) -> Plan:
    steps: list[Step] = [NeedsStep(id="needs", phase="setup", fault="fault")]
    steps += [RunStep(id=f"setup.{n}", phase="setup", command=shell(text)) for n, text in enumerate(setup)]
    steps += [
        LoadStep(id=f"load.{n}", phase="before", load=str(n), command=shell(text, 3600)) for n, text in enumerate(loads)
    ]
    if ready:
        steps += [RunStep(id="settle", phase="before", command=shell(until(ready)))]
    elif loads:
        steps += [WaitStep(id="settle", phase="before", seconds=settle)]
    steps += [InventoryStep(id="inventory.before", phase="before", label="before")] if inventory else []
    on: Literal["guest", "host"] = "host" if item.fault.on_machine else "guest"
    steps += [ApplyStep(id="apply", phase="fault", on=on, fault="fault")]
    steps += [RunStep(id=f"under.{n}", phase="under", command=shell(text)) for n, text in enumerate(under)]
    steps += [UndoStep(id="undo", phase="undo", on=on, fault="fault")]
    steps += [InventoryStep(id="inventory.undone", phase="end", label="undone")] if inventory else []
    return Plan(
        experiment="trial",
        template="base",
        deadline_s=240,
        probes={},
        faults={"fault": planned(item)},
        steps=tuple(steps),
    )


async def attempt(
    sandbox: AsyncSandbox,
    spec: Mapping[str, Any],
    *,
    setup: Sequence[str] = (),
    loads: Sequence[str] = (),
    under: Sequence[str] = (),
    settle: float = 1.0,
    inventory: bool = False,
    ready: str = "",
) -> Trial:
    """Needs, setup, loads, the act, the commands under it, the undo; with an inventory before and after if wanted.

    `ready` is shell text that succeeds once the loads are what the fault is to meet; it is waited for instead of
    `settle`.
    """
    item = disturbance("fault", 1, spec)
    plan = plan_of(item, setup, loads, under, settle, inventory, ready)
    events = await carried_out(sandbox, plan)
    return Trial(item.fault, receipt(item, plan, events), events)


async def carried_out(sandbox: AsyncSandbox, plan: Plan) -> list[dict[str, Any]]:
    """The runner's events, and those of the acts that it leaves to the host."""
    events: list[dict[str, Any]] = []

    def of_host(event: str, **fields: Any) -> None:
        events.append(json.loads(json.dumps({"event": event, "on": "host", **fields})))

    acts = HostActs(plan, sandbox, of_host)
    steps = {step.id: step for step in plan.steps}
    runner = await sandbox.start(["stormcell-guest", "run-plan"], stdin=True, timeout=300)
    await runner.write_stdin(json.dumps({"plan": plan.model_dump(mode="json"), "start": 0}).encode() + b"\n")
    pending = b""
    async for chunk in runner.stdout():
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            events.append(json.loads(line))
            if events[-1]["event"] == "await":
                step = steps[events[-1]["step"]]
                assert isinstance(step, ApplyStep | UndoStep)
                stop = await (acts.apply(step) if isinstance(step, ApplyStep) else acts.undo(step))
                await runner.write_stdin(json.dumps(stop or {"go": step.id}).encode() + b"\n")
    await runner.wait()
    await acts.settle()
    own = [event for event in events if event.get("on") != "host"]
    assert own[-1]["event"] == "end", (own[-1], pending)
    return events


async def abandon(
    sandbox: AsyncSandbox,
    spec: Mapping[str, Any],
    *,
    loads: Sequence[str] = (),
    settle: float = 1.0,
    ready: str = "",
    **_: Any,
) -> None:
    """The runner is killed with the fault in force; its watchdog has until the deadline to undo it."""
    item = disturbance("fault", 1, spec)
    plan = plan_of(item, (), loads, ["sleep 60"], settle, ready=ready)
    runner = await sandbox.start(["stormcell-guest", "run-plan"], stdin=True, timeout=300)
    await runner.write_stdin(json.dumps({"plan": plan.model_dump(mode="json"), "start": 0}).encode() + b"\n")
    pending, pid = b"", 0
    async for chunk in runner.stdout():
        *lines, pending = (pending + chunk).split(b"\n")
        events = [json.loads(line) for line in lines]
        assert not [event for event in events if event["event"] == "stop"], events
        pid = next((event["pid"] for event in events if event["event"] == "begin"), pid)
        if any(event.get("label") == "during" for event in events):
            await sandbox.exec(["kill", "-9", str(pid)], check=True)
    waited = 'until [ -z "$(ls /run/stormcell/receipts/*.json 2>/dev/null)" ]; do sleep 0.1; done'
    await sandbox.exec(waited, timeout=60, check=True)
    # the loads outlive their runner
    inner = "find /sys/fs/cgroup/stormcell/exec -mindepth 2 -maxdepth 2 -type d"
    kill = f"for group in $({inner}); do echo 1 > $group/cgroup.kill; done"
    await sandbox.exec(kill, check=True)


class Bench:
    """A sandbox for the trials of one module, without an event loop in the tests."""

    def __init__(self, template: Template) -> None:
        self._runner = asyncio.Runner()
        self.sandbox = self._runner.run(AsyncSandbox.create(template, ttl_seconds=1200))

    def attempt(self, spec: Mapping[str, Any], **parts: Any) -> Trial:
        """See `attempt`."""
        return self._runner.run(attempt(self.sandbox, spec, **parts))

    def watched(
        self,
        spec: Mapping[str, Any],
        probe: Sequence[str],
        *,
        user: str | None = None,
        loads: Sequence[str] = (),
        ready: str = "",
    ) -> Trial:
        """The same with a command probe of the run while the fault, which may have a schedule, is in force."""
        item = disturbance("fault", 1, spec)
        plan = plan_of(item, (), loads, (), 1.0, ready=ready)
        looks = PlannedProbe(kind="command", vantage="guest", spec={"run": list(probe), "user": user, "timeout": 60})
        steps = [step for step in plan.steps if step.id != "undo"]
        look = ProbeStep(id="look", phase="under", probe="look", bounds=())
        plan = plan.model_copy(update={"probes": {"look": looks}, "steps": (*steps, look, plan.steps[-1])})
        events = self._runner.run(carried_out(self.sandbox, plan))
        return Trial(item.fault, receipt(item, plan, events), events)

    def run(self, text: str, seconds: float = 60.0) -> str:
        """A command outside of any trial; its stdout."""
        return self._runner.run(self.sandbox.exec(text, timeout=seconds, check=True)).text

    def perform(self, commands: Iterable[Command], **before: str) -> None:
        """The commands of a plan, from outside of any run; `before` is what a reading before the act would say."""
        for command in commands:
            argv = list(command.argv)
            for name, text in before.items():
                argv = [word.replace(f"{{before:{name}}}", text) for word in argv]
            self.run(f"printf %s {shlex.quote(command.stdin)} | {shlex.join(argv)} || [ $? -le {max(command.accept)} ]")

    def abandon(self, spec: Mapping[str, Any], **parts: Any) -> None:
        """Kill the runner while the fault is in force; returns when nothing is left to undo."""
        self._runner.run(abandon(self.sandbox, spec, **parts))

    def put(self, path: str, text: str) -> None:
        """A file in the guest."""
        self._runner.run(self.sandbox.filesystem.write(path, text.encode()))

    def put_tools(self) -> None:
        """network_tool.py as /root/tool.py, and every other *_tool.py of this folder under its own name."""
        for path in sorted(Path(__file__).parent.glob("*_tool.py")):
            self.put(f"/root/{'tool.py' if path.stem == 'network_tool' else path.name}", path.read_text())

    def close(self) -> None:
        """The sandbox is gone afterwards."""
        self._runner.run(self.sandbox.kill())
        self._runner.close()
