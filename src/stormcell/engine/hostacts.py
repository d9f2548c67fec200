"""Faults that the host carries out on the machine: the same events as the guest's runner writes of its own.

Reading `before`, the receipt with its undo, the act, reading `during`; then reading `after`, the undo, reading
`undone`. Commands of the program `machine` are done here, others run in the guest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from stormcell.engine.crash import Log
from stormcell.engine.machinetool import MachineTool, output
from stormcell.guest.lifeline import Stop
from stormcell.guest.readings import accepted, filled_in
from stormcell.sandbox.api import AsyncSandbox
from stormcell.sandbox.link import to_the_end
from stormcell.spec.errors import StormcellError
from stormcell.spec.fault import MACHINE, Command
from stormcell.spec.plan import ApplyStep, Plan, UndoStep

PATIENT = ("pause",)
"""Verbs that go on beside the runner: it is told to go on at once, so that its probes meet the act."""
SETTLE_S = 10.0

Json = dict[str, Any]


class HostActs:
    """One run's acts on its machine."""

    def __init__(self, plan: Plan, sandbox: AsyncSandbox, log: Log) -> None:
        self._plan = plan
        self._sandbox = sandbox
        self._log = log
        self._tool = MachineTool(sandbox)
        self._begun: dict[str, list[Json]] = {}
        self._beside: dict[str, asyncio.Task[Json | None]] = {}

    async def apply(self, step: ApplyStep) -> Json | None:
        """None, or the line that stops the runner: the act failed."""
        planned = self._plan.faults[step.fault]
        before = await self._reading(step, "before")
        try:
            undo = filled_in([command.model_dump(mode="json") for command in planned.undo], before)
        except Stop as stop:
            return {"stop": stop.code, "text": stop.text}
        self._say("receipt", step, undo=undo)
        self._begun[step.fault] = undo
        act = self._act(step, planned.apply)
        if any(command.argv[1:2] == (verb,) for command in planned.apply for verb in PATIENT):
            self._beside[step.fault] = asyncio.create_task(act)
            return None
        return await act

    async def undo(self, step: UndoStep) -> Json | None:
        """Waits for an act that is still under way. None, or the line that stops the runner."""
        if step.fault not in self._begun:
            return {"stop": "runner_error", "text": f"'{step.fault}' was not begun on the machine"}
        if (beside := self._beside.pop(step.fault, None)) and (stop := await beside):
            return stop
        await self._undo(step)
        return None

    async def settle(self) -> None:
        """The run is at its end, in whatever way: what was begun and not undone is undone now, the last first."""
        for task in self._beside.values():
            task.cancel()
        if self._beside:
            await asyncio.wait(self._beside.values(), timeout=SETTLE_S)
        try:
            if await self._sandbox.wait_exit(0) is None:
                for fault in reversed(list(self._begun)):
                    await self._undo_late(UndoStep(id="", phase="undo", on="host", fault=fault))
        finally:
            try:
                await self._tool.settle()
            except StormcellError:
                pass  # the machine is gone, and what was done to it with it

    async def _undo_late(self, step: UndoStep) -> None:
        try:
            async with asyncio.timeout(SETTLE_S):
                await self._undo(step)
        except (StormcellError, TimeoutError) as error:
            self._say("undone", step, ok=False, outputs=[output(None, "", str(error))])

    async def _act(self, step: ApplyStep, commands: Sequence[Command]) -> Json | None:
        kind = self._plan.faults[step.fault].kind
        outputs: list[Json] = []
        for command in commands:
            outputs.append(await self._run(command.model_dump(mode="json")))
            if not accepted({"accept": command.accept}, outputs[-1]):
                self._say("applied", step, ok=False, outputs=outputs)
                why = outputs[-1]["err"].strip() or f"exit code {outputs[-1]['exit']}"
                return {"stop": "apply_failed", "text": f"{kind}: `{' '.join(command.argv)}` failed: {why}"}
        self._say("applied", step, ok=True, outputs=outputs)
        await self._reading(step, "during")
        return None

    async def _undo(self, step: UndoStep) -> None:
        undo = self._begun.pop(step.fault)
        try:
            await self._reading(step, "after")
        finally:
            outputs = [await to_the_end(self._run(command)) for command in undo]
            ok = all(accepted(command, done) for command, done in zip(undo, outputs, strict=True))
            self._say("undone", step, ok=ok, outputs=outputs)
        await self._reading(step, "undone")

    async def _reading(self, step: ApplyStep | UndoStep, label: str) -> Json:
        commands = [command.model_dump(mode="json") for command in self._plan.faults[step.fault].read]
        reading = {"at": 0.0, "outputs": {command["name"]: await self._run(command) for command in commands}}
        self._say("reading", step, label=label, reading=reading)
        return reading

    async def _run(self, command: Mapping[str, Any]) -> Json:
        argv, timeout = command["argv"], command.get("timeout_s", 30.0)
        if argv[0] == MACHINE:
            return await self._tool.run(argv[1:], timeout)
        stdin = str(command.get("stdin") or "").encode()
        try:
            done = await self._sandbox.exec(list(argv), stdin=stdin, user=command.get("user"), timeout=timeout)
        except StormcellError as error:
            return output(None, "", str(error))
        return output(done.exit_code, done.text, done.stderr.decode(errors="replace"))

    def _say(self, event: str, step: ApplyStep | UndoStep, **fields: Any) -> None:
        self._log(event, step=step.id, phase=step.phase, fault=step.fault, **fields)
