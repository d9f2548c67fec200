"""One run: restore, let the guest carry out its steps, carry out the host's, keep the deadline, collect every event.

Nothing is judged here. Whatever ends the run early (the guest dies, the deadline passes, Ctrl-C) becomes an event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from stormcell.engine import hostaborts
from stormcell.engine.crash import crash
from stormcell.engine.folder import RunFolder
from stormcell.engine.hostacts import HostActs
from stormcell.engine.hostprobes import measure_once, until_it_holds, until_moment
from stormcell.sandbox.api import AsyncSandbox
from stormcell.sandbox.link import to_the_end
from stormcell.sandbox.running import AsyncCommand
from stormcell.spec.errors import GuestProtocolError, OutcomeUnknown, StormcellError
from stormcell.spec.plan import (
    ApplyStep,
    ForkStep,
    MachineStep,
    MomentStep,
    Plan,
    ProbeStep,
    RecoverStep,
    Step,
    UndoStep,
    WatchStep,
)
from stormcell.template.model import Template

MAX_LINE = 8 << 20
GRACE_S = 15.0
"""After a stop was asked for: how long the runner may take to undo and say `end`."""

OnEvent = Callable[[Mapping[str, Any]], None]


class Conductor:
    """Performs one plan. Use once."""

    def __init__(self, plan: Plan, template: Template, folder: RunFolder, on_event: OnEvent) -> None:
        self.plan = plan
        self.template = template
        self.folder = folder
        self._on_event = on_event
        self._first = 0
        """The step to begin with; those before it were carried out in the machine that this one goes on from."""
        self._undone_at = time.monotonic()
        self._meeting: asyncio.Task[None] | None = None
        self._runner: AsyncCommand | None = None
        self._acts: HostActs | None = None
        self._watching: asyncio.Task[None] | None = None
        on_host = any(abort.on == "host" for abort in plan.aborts)
        self._watches = {step.id for step in plan.steps if isinstance(step, WatchStep) and on_host}
        self._awaited = {step.id: step for step in plan.steps if step.on == "host" or isinstance(step, ForkStep)}
        self.sandbox: AsyncSandbox | None = None
        self.at_fork = False
        """The runner waits to be handed another plan, in a fork of the machine."""
        self.events: list[dict[str, Any]] = []
        self.refused = False
        """The host has no machine for it: nothing was begun."""

    def record(self, event: Mapping[str, Any]) -> None:
        """One event: on disk first, then to whoever watches."""
        line = self.folder.event(event)
        self.events.append(line)
        self._on_event(line)

    def host(self, event: str, **fields: Any) -> None:
        """An event of the host's own."""
        self.record({"event": event, "on": "host", **fields})

    async def perform(self) -> None:
        """Run to the end, whatever the end is. The machine is gone when this returns or raises."""
        try:
            await self.carry_out()
        finally:
            await self.release()

    async def carry_out(self) -> None:
        """All steps, or those up to the fork. Whatever ends them early becomes an event; the machine stays.

        Raises what the host lacked when no machine could be made, and CancelledError.
        """
        try:
            async with asyncio.timeout(self.plan.deadline_s):
                self.host("create", template=self.plan.template, digest=self.template.digest)
                self.sandbox = sandbox = await self._obtain()
                self.host("created", sandbox=sandbox.id, ports=dict(sandbox.ports))
                self._acts = HostActs(self.plan, sandbox, self.host)
                await self._carry_out(sandbox)
        except TimeoutError:
            self.host("lost", code="deadline", text=f"the run did not end within {self.plan.deadline_s:g} s")
        except OutcomeUnknown as error:
            self.host("lost", code="guest_lost", text=str(error))
        except GuestProtocolError as error:
            self.host("lost", code="guest_protocol", text=str(error))
        except StormcellError as error:
            self.host("lost", code="host_error", text=str(error))
            if self.sandbox is None:
                self.refused = True
                raise
        except asyncio.CancelledError:
            self.host("lost", code="interrupted", text="the run was interrupted on the host")
            raise

    async def release(self) -> None:
        """End the machine, if there is one; returns when it is gone."""
        if self.sandbox is not None:
            await to_the_end(self._release(self.sandbox))

    async def _obtain(self) -> AsyncSandbox:
        """The machine to perform in: the template's snapshot."""
        return await AsyncSandbox.create(
            self.template,
            ttl_seconds=self.plan.deadline_s + 60,
            metadata=self._metadata,
            open_ports=self.plan.open_ports,
            raw=self.plan.raw_state,
        )

    @property
    def _metadata(self) -> dict[str, str]:
        """By which a sandbox says whose it is."""
        return {"run": self.folder.path.name, "experiment": self.plan.experiment}

    async def _carry_out(self, sandbox: AsyncSandbox) -> None:
        """Segments of guest steps, each up to an act on the machine: a crash takes the runner with it."""
        steps = self.plan.steps
        start = self._first
        while start < len(steps):
            end = next((i for i in range(start, len(steps)) if isinstance(steps[i], MachineStep)), len(steps))
            act = await self._segment(sandbox, start, end)
            if not isinstance(act, MachineStep):
                self.at_fork = act is not None
                return
            booted_at = await crash(sandbox, act, self.host)
            if self._meeting is not None:
                # the runner died with its machine
                await asyncio.wait({self._meeting})
                self._meeting = None
            if booted_at is None:
                return
            self._undone_at = booted_at
            start = end + 1

    def _command(self, start: int) -> tuple[str, float]:
        """What is asked of the guest's program to carry out the steps from `start`, and its time."""
        return "run-plan", self.plan.deadline_s + 60

    async def _segment(self, sandbox: AsyncSandbox, start: int, end: int) -> MachineStep | ForkStep | None:
        """Let the runner carry out the steps from `start`. Returns the act on the machine, or fork, that it came to.

        The runner then waits, with its loads under way: the crash is to meet a working machine.
        """
        part = self.plan.model_copy(update={"steps": self.plan.steps[: end + 1]})
        request = {"plan": part.model_dump(mode="json"), "start": start}
        command, seconds = self._command(start)
        runner = await sandbox.start(["stormcell-guest", command], stdin=True, timeout=seconds)
        self._runner = runner
        await runner.write_stdin(json.dumps(request).encode() + b"\n")
        events = _events(runner.stdout())
        ended = False
        async for event in events:
            self.record({"on": "guest", **event})
            match event["event"]:
                case "await":
                    step = self._awaited.get(str(event.get("step")))
                    if isinstance(step, MachineStep | ForkStep):
                        self._meeting = asyncio.create_task(self._last_words(events))
                        return step
                    answer = await self._host_step(step, sandbox.ports)
                    await runner.write_stdin(json.dumps(answer).encode() + b"\n")
                case "step" if event.get("step") in self._watches:
                    self._watching = asyncio.create_task(self._abort(runner, sandbox.ports))
                case "step" if event.get("phase") == "undo":
                    await self._stop_watching()
                case "undone":
                    self._undone_at = time.monotonic()
                case "end":
                    ended = True
        await self._stop_watching()
        exit_ = await runner.wait()
        if not ended:
            self.host("lost", code="runner_gone", text=f"the runner in the guest ended without saying so ({exit_})")
        return None

    async def _abort(self, runner: AsyncCommand, ports: Mapping[str, int]) -> None:
        """Stop the runner once a condition that is seen from the host is met."""
        text = await hostaborts.watch(self.plan, ports, self.host)
        await runner.write_stdin(json.dumps({"stop": "aborted", "text": text}).encode() + b"\n")

    async def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait({watching})
            if not watching.cancelled() and (error := watching.exception()):
                raise error

    async def _last_words(self, events: AsyncIterator[dict[str, Any]]) -> None:
        """Read on, so that the channel stays alive while the machine is crashed. Its end is no surprise."""
        try:
            async for _ in events:
                pass
        except StormcellError:
            pass

    async def _host_step(self, step: Step | None, ports: Mapping[str, int]) -> dict[str, Any]:
        """Carry it out. Returns the line that the runner waits for: go on, or stop."""
        if isinstance(step, ProbeStep):
            fields = await measure_once(self.plan, step, ports, self.plan.seed)
            self.host("probe", step=step.id, phase=step.phase, **fields)
            if step.gate and not fields["measured"]:
                return {"stop": "measured_nothing", "text": f"probe '{step.probe}' measured nothing before the fault"}
            if step.gate and not fields["holds"]:
                return {"stop": "broken_before", "text": f"probe '{step.probe}' did not hold before the fault"}
        elif isinstance(step, RecoverStep):
            fields = await until_it_holds(self.plan, step, ports, self.plan.seed, self._undone_at)
            self.host("recovered", step=step.id, phase=step.phase, **fields)
        elif isinstance(step, MomentStep):
            came, fields = await until_moment(self.plan, step, ports, self.plan.seed)
            if not came:
                return {"stop": "no_moment", **fields}
            self.host("moment", step=step.id, phase=step.phase, **fields)
        elif isinstance(step, ApplyStep | UndoStep) and self._acts is not None:
            act = self._acts.apply(step) if isinstance(step, ApplyStep) else self._acts.undo(step)
            if stop := await act:
                return stop
            self._undone_at = time.monotonic()
        else:
            raise GuestProtocolError("the runner awaits a step that is none of the host's")
        return {"go": step.id}

    async def _release(self, sandbox: AsyncSandbox) -> None:
        try:
            await self._stop_watching()
            if self.at_fork and self._meeting is not None:
                self._meeting.cancel()  # that runner waits for ever
                await asyncio.wait({self._meeting})
            if self._acts is not None:
                await self._acts.settle()
            if self._runner is not None:
                await self._runner.close()
            self.folder.write("console.log", await sandbox.console())
            evidence = await sandbox.kill()
            self.host("released", evidence=evidence.as_dict())
        except StormcellError as error:
            self.host("release_failed", text=str(error))
        finally:
            if self._meeting is not None:
                await asyncio.wait({self._meeting}, timeout=10)


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """JSON objects, one a line. Raises GuestProtocolError for anything else: the guest is not trusted."""
    pending = b""
    async for chunk in chunks:
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield parse_event(line)
        if len(pending) > MAX_LINE:
            raise GuestProtocolError("the runner wrote a line of more than 8 MiB")
    if pending:
        yield parse_event(pending)


def parse_event(line: bytes) -> dict[str, Any]:
    """One line of a runner. Raises GuestProtocolError."""
    try:
        event = json.loads(line)
    except ValueError as error:
        raise GuestProtocolError(f"the runner wrote something that is no event: {line[:80]!r}") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise GuestProtocolError(f"the runner wrote something that is no event: {line[:80]!r}")
    for key in ("h", "on"):
        event.pop(key, None)  # ours to say
    return event
