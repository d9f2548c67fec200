"""One run: restore, let the guest carry out its steps, carry out the host's, keep the deadline, collect every event.

Nothing is judged here. Whatever ends the run early (the guest dies, the deadline passes, Ctrl-C) becomes an event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from stormcell.engine.crash import crash
from stormcell.engine.folder import RunFolder
from stormcell.engine.hostprobes import measure_once, until_it_holds
from stormcell.sandbox.api import AsyncSandbox
from stormcell.spec.errors import GuestProtocolError, OutcomeUnknown, StormcellError
from stormcell.spec.plan import MachineStep, Plan, ProbeStep, RecoverStep
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
        self._undone_at = time.monotonic()
        self.events: list[dict[str, Any]] = []

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
        sandbox: AsyncSandbox | None = None
        try:
            async with asyncio.timeout(self.plan.deadline_s):
                self.host("create", template=self.plan.template, digest=self.template.digest)
                sandbox = await AsyncSandbox.create(
                    self.template,
                    ttl_seconds=self.plan.deadline_s + 60,
                    metadata={"run": self.folder.path.name, "experiment": self.plan.experiment},
                    open_ports=self.plan.open_ports,
                    raw=self.plan.raw_state,
                )
                self.host("created", sandbox=sandbox.id, ports=dict(sandbox.ports))
                await self._carry_out(sandbox)
        except TimeoutError:
            self.host("lost", code="deadline", text=f"the run did not end within {self.plan.deadline_s:g} s")
        except OutcomeUnknown as error:
            self.host("lost", code="guest_lost", text=str(error))
        except GuestProtocolError as error:
            self.host("lost", code="guest_protocol", text=str(error))
        except StormcellError as error:
            self.host("lost", code="host_error", text=str(error))
            if sandbox is None:
                raise
        except asyncio.CancelledError:
            self.host("lost", code="interrupted", text="the run was interrupted on the host")
            raise
        finally:
            if sandbox is not None:
                await asyncio.shield(self._release(sandbox))

    async def _carry_out(self, sandbox: AsyncSandbox) -> None:
        """Segments of guest steps, with the acts on the machine between them: a crash takes the runner with it."""
        steps = self.plan.steps
        start = 0
        while start < len(steps):
            step = steps[start]
            if not isinstance(step, MachineStep):
                end = next((i for i in range(start, len(steps)) if isinstance(steps[i], MachineStep)), len(steps))
                if not await self._segment(sandbox, start, end):
                    return
                start = end
                continue
            self.host("step", step=step.id, phase=step.phase)
            booted_at = await crash(sandbox, step, self.host)
            if booted_at is None:
                return
            self._undone_at = booted_at
            start += 1

    async def _segment(self, sandbox: AsyncSandbox, start: int, end: int) -> bool:
        """Let the runner carry out the steps from `start` to before `end`. False when the run is over."""
        part = self.plan.model_copy(update={"steps": self.plan.steps[:end]})
        request = {"plan": part.model_dump(mode="json"), "start": start}
        runner = await sandbox.start(["stormcell-guest", "run-plan"], stdin=True, timeout=self.plan.deadline_s + 60)
        await runner.write_stdin(json.dumps(request).encode() + b"\n")
        ended = stopped = False
        async for event in _events(runner.stdout()):
            self.record({"on": "guest", **event})
            match event["event"]:
                case "await":
                    await self._host_step(str(event.get("step")), sandbox.ports)
                    await runner.write_stdin(json.dumps({"go": event.get("step")}).encode() + b"\n")
                case "undone":
                    self._undone_at = time.monotonic()
                case "stop":
                    stopped = True
                case "end":
                    ended = True
        exit_ = await runner.wait()
        if not ended:
            self.host("lost", code="runner_gone", text=f"the runner in the guest ended without saying so ({exit_})")
        return ended and not stopped

    async def _host_step(self, step_id: str, ports: Mapping[str, int]) -> None:
        step = next((item for item in self.plan.steps if item.id == step_id and item.on == "host"), None)
        if isinstance(step, ProbeStep):
            fields = await measure_once(self.plan, step, ports, self.plan.seed)
            self.host("probe", step=step.id, phase=step.phase, **fields)
        elif isinstance(step, RecoverStep):
            fields = await until_it_holds(self.plan, step, ports, self.plan.seed, self._undone_at)
            self.host("recovered", step=step.id, phase=step.phase, **fields)
        else:
            raise GuestProtocolError(f"the runner awaits a step '{step_id[:80]}' that is none of the host's")

    async def _release(self, sandbox: AsyncSandbox) -> None:
        try:
            self.folder.write("console.log", await sandbox.console())
            evidence = await sandbox.kill()
            self.host("released", evidence=evidence.as_dict())
        except StormcellError as error:
            self.host("release_failed", text=str(error))


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """JSON objects, one a line. Raises GuestProtocolError for anything else: the guest is not trusted."""
    pending = b""
    async for chunk in chunks:
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield _event(line)
        if len(pending) > MAX_LINE:
            raise GuestProtocolError("the runner wrote a line of more than 8 MiB")
    if pending:
        yield _event(pending)


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise GuestProtocolError(f"the runner wrote something that is no event: {line[:80]!r}") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise GuestProtocolError(f"the runner wrote something that is no event: {line[:80]!r}")
    for key in ("h", "on"):
        event.pop(key, None)  # ours to say
    return event
