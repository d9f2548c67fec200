"""One sealed run: its plan goes in, its events come out, and in between the machine hears nothing but what is due.

The host has a say at three places, while the guest stands still: before the runner, when it awaits an act on the
machine, and behind it. What it says there is a function of the plan, the seed and the guest's own words.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stormcell.engine.conductor import parse_event
from stormcell.engine.sealed.crash import Crash
from stormcell.engine.sealed.identity import resume_request
from stormcell.engine.sealed.log import SealedLog
from stormcell.guest.runner import HAND_OVER
from stormcell.guest.sealed.mailbox import AWAIT, ENDED, GO_BY, OUTPUT, PASS, STAND
from stormcell.machine.model import ExitEvidence
from stormcell.machine.sealed import reboot
from stormcell.machine.sealed.argv import SealedSpec
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.sandbox import admission
from stormcell.sandbox.link import to_the_end
from stormcell.spec.errors import (
    GuestProtocolError,
    MachineDied,
    MachineError,
    OutcomeUnknown,
    SpecError,
    StormcellError,
)
from stormcell.spec.plan import ForkStep, MachineStep, Plan

SLOWEST = 20.0
"""Seconds of the host for one of the guest's, at most: a busy emulated guest takes 2 to 5 on an idle processor."""
SPARE_S = 120.0
LEAVE_S = 60.0
"""Of the guest's: what it takes to undo the faults of a plan."""
SILENT_S = 120.0
"""Of the host's: a guest that runs passes by every 100 ms of its own time, however much there is to do; one that does
not for so long is halted, or has nothing left for anybody."""
LONGEST_S = 7 * 24 * 3600.0
"""The runner keeps the plan's deadline itself; behind a fork it has another one."""
CONSOLE_LINES = 10_000
LOSSES = (
    (MachineDied, "guest_lost"),
    (OutcomeUnknown, "guest_lost"),
    (GuestProtocolError, "guest_protocol"),
    (MachineError, "deadline"),
)


HandOver = Literal["undo", "keep"]


@dataclass(frozen=True)
class Start:
    """Where runs begin: a machine, its saved device state, and whether it stands in the middle of a command.

    With `hand_over` that is another plan, which is left first: what it began is undone, or kept.
    """

    spec: SealedSpec
    state: Path
    under_way: bool = False
    hand_over: HandOver | None = None


@dataclass
class Until:
    """Stop early: behind the guest's event number `event`, from 0, or where it passes by at or after `seconds`.

    Seconds are the run's, as in its events. Nothing stops before the runner's first event.
    """

    event: int | None = None
    seconds: float | None = None
    reached: bool = False


class SealedConductor:
    """Performs one plan. Use once."""

    def __init__(
        self, plan: Plan, start: Start, folder: Path, log: SealedLog, *, seed: int, until: Until | None = None
    ) -> None:
        """`folder` is the machine's own, to be removed afterwards."""
        self.plan = plan
        self.log = log
        self.machine: SealedMachine | None = None
        self.evidence: ExitEvidence | None = None
        self.guest_seconds = 0.0
        self.moment = 0.0
        """The run's time (s), as in its events, where the machine stood still last."""
        self.host_seconds = 0.0
        self.at_fork = False
        self.refused = False
        """The host has no machine for it: nothing was begun."""
        self.console = ""
        self._start = start
        self._spec = start.spec
        self._folder = folder
        self._seed = seed
        self._until = until
        self._boots = 0
        self._lived_ns = 0
        self._told_ns = 0
        self._boot_id = ""
        self._heard_ns = 0
        self._heard_at = 0.0
        self._heard_s = 0.0

    @property
    def spec(self) -> SealedSpec:
        """Of the machine as it is now: behind a crash it is another one."""
        return self._spec

    async def perform(self) -> None:
        """Run to the end, whatever the end is. The machine is gone when this returns or raises."""
        try:
            await self.carry_out()
        finally:
            await to_the_end(self.release())

    async def carry_out(self) -> None:
        """All steps, or those up to the fork or `until`. Whatever ends them early becomes an event.

        Raises what the host lacked when no machine could be made, and CancelledError.
        """
        began = time.monotonic()
        try:
            self.log.host("create", template=self.plan.template, digest=self.plan.template_digest)
            admission.admit_here(self._start.spec.layout.memory, self._folder.parent)
            self.machine = await SealedMachine.restore(self._start.spec, self._folder, self._start.state)
            self.log.host("created", sandbox="sealed", ports={})
            await self._carry_out(self.machine)
        except StormcellError as error:
            self._lost(_code(error), error)
            self.refused = self.machine is None and not self._boots
            if self.refused or isinstance(error, SpecError):
                raise
        except asyncio.CancelledError:
            self.log.host("lost", code="interrupted", text="the run was interrupted on the host")
            raise
        finally:
            self.guest_seconds = max(self.guest_seconds, self._heard_s)
            self.host_seconds = time.monotonic() - began

    def _lost(self, code: str, error: StormcellError) -> None:
        self.log.host("lost", code=code, text=error.what)

    async def release(self) -> None:
        """End the machine, if there is one; returns when it is gone."""
        machine, self.machine = self.machine, None
        if machine is None:
            return
        try:
            self.console = machine.console_tail(CONSOLE_LINES)
            self._released(await machine.kill())
        except StormcellError as error:
            self.log.host("release_failed", text=str(error))
        finally:
            await machine.close()

    def _released(self, evidence: ExitEvidence) -> None:
        self.evidence = evidence
        self.log.host("released", process_gone=evidence.process_gone)

    async def _carry_out(self, machine: SealedMachine) -> None:
        start = 0
        steps = self.plan.steps
        self._lived_ns = machine.status_now().now_ns
        if not self._start.under_way and not self.plan.raw_state:
            await self._resume(machine)
        while start < len(steps):
            end = next((i for i in range(start, len(steps)) if isinstance(steps[i], MachineStep)), len(steps))
            act = await self._segment(machine, start, end)
            if not isinstance(act, MachineStep):
                self.at_fork = act is not None
                return
            self._boots += 1
            again = await self._crash(machine, act)
            if again is None:
                return
            machine = again
            await self._resume(machine)
            start = end + 1

    async def _crash(self, machine: SealedMachine, step: MachineStep) -> SealedMachine | None:
        """What goes on behind it; None when it is not to be booted again."""
        crash = Crash(step, self.log, self._boot_id, self._limit(step.boot_within_s))
        await crash.down(machine)
        self.console, self.machine = machine.console_tail(CONSOLE_LINES), None
        remains = await reboot.end(machine, self._spec)
        crash.gone(remains.evidence)
        again = None
        if step.boot:
            self.machine, self._spec = again, _ = await reboot.power_on(remains, self._lived_ns)
            booted = await crash.up(again)
            self.guest_seconds += booted
            self._told_ns = round(booted * 1e9)
        else:
            self._released(remains.evidence)
        crash.told()
        return again

    async def _resume(self, machine: SealedMachine) -> None:
        machine.order(resume_request(self._seed, self._boots))
        halt = await machine.go(SPARE_S)
        if halt.status.why != ENDED:
            raise OutcomeUnknown("the guest did not acknowledge `resumed`")
        self._lived_ns = halt.status.now_ns

    async def _segment(self, machine: SealedMachine, start: int, end: int) -> MachineStep | ForkStep | None:
        """The steps from `start`. Returns the act on the machine, or the fork, that the runner came to and awaits."""
        part = self.plan.model_copy(update={"steps": self.plan.steps[: end + 1]})
        passing = STAND if self._until else GO_BY
        if self._start.under_way and not start:
            if self._start.hand_over is not None:
                await self._leave(machine, self._start.hand_over)
            join = _runner("join", {"plan": part.model_dump(mode="json")})
            resume = None if self.plan.raw_state else resume_request(self._seed, self._boots)
            machine.line(json.dumps({"exec": join, "resume": resume}), passing=passing)
        else:
            machine.order(_runner("run-plan", {"plan": part.model_dump(mode="json"), "start": start}), passing=passing)
        return await self._listen(machine)

    async def _leave(self, machine: SealedMachine, how: HandOver) -> None:
        """Have the runner leave its plan, until it waits for another one. Raises SpecError when it does not."""
        machine.line(json.dumps({"hand_over": True, "keep": how == "keep"}))
        said: list[dict[str, Any]] = []
        while True:
            halt = await machine.go(self._limit(LEAVE_S))
            said += [parse_event(data) for kind, data in machine.answer() if kind == OUTPUT]
            if halt.status.why == AWAIT and said and said[-1].get("step") == HAND_OVER:
                break
            if halt.status.why != AWAIT:
                raise SpecError(
                    "there is nothing to go on from: no step of the recorded run was under way there",
                    rule="another fault goes on in the place of the recorded run's steps",
                    remedy="stop at another moment: not behind its last step, nor between a boot and the next one",
                )
            machine.line("{}")  # the answer to an act of the host's, which nobody takes any more
        undone = [str(event["fault"]) for event in said if event["event"] == "undone"]
        if not all(event["ok"] for event in said if event["event"] == "undone"):
            raise SpecError("the recorded run's fault could not be undone there", remedy="stop earlier, or keep it")
        self.log.host("handed_over", undone=undone, kept=how == "keep")

    async def _listen(self, machine: SealedMachine) -> MachineStep | ForkStep | None:
        limit = time.monotonic() + self._limit(self.plan.deadline_s)
        over_ns = self._lived_ns + round((self.plan.deadline_s + LEAVE_S) * 1e9)
        while True:
            told = len(self.log.events)
            self._heard_at = time.monotonic()
            halt = await machine.go(max(1.0, limit - time.monotonic()), lambda: self._look(machine, over_ns))
            self._hear(machine)
            if len(self.log.events) > told:
                self._told_ns = halt.status.now_ns
            self.moment = self.log.last + (halt.status.now_ns - self._told_ns) / 1e9
            self.guest_seconds += (halt.status.now_ns - self._lived_ns) / 1e9
            self._lived_ns = halt.status.now_ns
            if halt.status.why == PASS:
                if self._passed():
                    return None
            elif halt.status.why == AWAIT:
                return self._awaited()
            else:
                self._ended()
                return None

    def _limit(self, seconds: float) -> float:
        return seconds * SLOWEST + SPARE_S

    def _look(self, machine: SealedMachine, over_ns: int) -> None:
        """While it runs. Raises MachineError when it is silent, or ran beyond the deadline that its runner keeps."""
        self._hear(machine)
        now_ns, now = machine.status_now().now_ns, time.monotonic()
        if now_ns > over_ns:
            raise MachineError(
                f"the deadline of {self.plan.deadline_s:g}s passed in the guest, and its runner did not end"
            )
        if now_ns != self._heard_ns:
            self._heard_ns, self._heard_at = now_ns, now
            self._heard_s = self.guest_seconds + max(0, now_ns - self._lived_ns) / 1e9
            self.log.beat(self._heard_s)
        elif now > self._heard_at + SILENT_S:
            raise MachineError(f"silent for {SILENT_S:g}s of this host's time: the guest is halted, or starved")

    def _hear(self, machine: SealedMachine) -> None:
        for kind, data in machine.answer():
            if kind == OUTPUT:
                event = parse_event(data)
                if event["event"] == "begin":
                    self._boot_id = str(event.get("boot_id"))
                self.log.guest(event)

    def _passed(self) -> bool:
        until = self._until
        if until is None:
            return False
        told = sum(event["on"] == "guest" for event in self.log.events)
        if until.event is not None:
            until.reached = told > until.event
        elif until.seconds is not None:
            until.reached = told > 0 and self.moment >= until.seconds
        return until.reached

    def _awaited(self) -> MachineStep | ForkStep:
        name = self.log.events[-1].get("step")
        step = next((step for step in self.plan.steps if step.id == name), None)
        if not isinstance(step, MachineStep | ForkStep):
            raise GuestProtocolError("the runner awaits a step that is none of the host's")
        return step

    def _ended(self) -> None:
        last = next((event for event in reversed(self.log.events) if event["on"] == "guest"), None)
        if last is None or last["event"] != "end":
            self.log.host("lost", code="runner_gone", text="the runner in the guest ended without saying so")


def _code(error: StormcellError) -> str:
    """Of a loss, as the judge knows it."""
    return next((code for kind, code in LOSSES if isinstance(error, kind)), "host_error")


def _runner(command: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The request for the runner that carries out a plan; its output is told line by line."""
    argv, stdin = ["stormcell-guest", command], json.dumps(request) + "\n"
    return {"op": "exec", "argv": argv, "stdin": stdin, "open": True, "timeout_s": LONGEST_S}
