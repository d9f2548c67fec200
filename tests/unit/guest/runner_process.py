"""The real runner as a child process, and plans of plain commands for it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stormcell.spec.fault import Command, Needs
from stormcell.spec.plan import (
    ApplyStep,
    NeedsStep,
    Plan,
    PlannedFault,
    PlannedProbe,
    ProbeStep,
    RecoverStep,
    Step,
    UndoStep,
    WaitStep,
)
from stormcell.spec.probe import tolerances

PATIENCE = 60.0


def sh(script: str, name: str = "", **fields: Any) -> Command:
    return Command(argv=("sh", "-c", script), name=name, **fields)


class World:
    """A folder in which the fault is a file called `fault`, and the system is well while a file `sick` is absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.receipts = folder / "receipts"
        self.fault = folder / "fault"
        self.sick = folder / "sick"
        self.log = folder / "log"
        self.runners: list[Runner] = []

    def planned_fault(self, **changes: Any) -> PlannedFault:
        fields: dict[str, Any] = {
            "kind": "test.file",
            "params": {},
            "counts": "files",
            "needs": Needs(programs=("sh",), paths=(str(self.folder),)),
            "apply": (sh(f"echo on > {self.fault}"),),
            "undo": (sh(f"rm {self.fault} && echo undone {{before:who}} >> {self.log}"),),
            "read": (sh(f"cat {self.fault}", "fault"), sh("id -u", "who")),
        }
        return PlannedFault(**(fields | changes))

    def plan(self, *steps: Step, probes: dict[str, PlannedProbe] | None = None, **changes: Any) -> Plan:
        well = PlannedProbe(
            kind="command",
            vantage="guest",
            spec={"run": ["sh", "-c", f"echo rows 12; test ! -e {self.sick}"], "number": "rows (.*)", "timeout": 30.0},
        )
        fields: dict[str, Any] = {
            "experiment": "test",
            "template": "none",
            "seed": 1,
            "deadline_s": PATIENCE,
            "probes": {"well": well, **(probes or {})},
            "faults": {"fault": self.planned_fault()},
            "steps": steps,
        }
        return Plan(**(fields | changes))

    def whole(self, *under: Step) -> tuple[Step, ...]:
        return (
            NeedsStep(id="needs", phase="setup", fault="fault"),
            probe("before"),
            ApplyStep(id="apply", phase="fault", fault="fault"),
            *(under or (probe("under"),)),
            UndoStep(id="undo", phase="undo", fault="fault"),
            recover(),
        )


def probe(phase: Any, name: str = "well", kind: str = "command", gate: bool | None = None, **expect: Any) -> ProbeStep:
    return ProbeStep(
        id=f"{phase}.{name}",
        phase=phase,
        probe=name,
        bounds=tolerances(kind, expect or {"exit_code": 0}),
        gate=phase == "before" if gate is None else gate,
    )


def recover(name: str = "well", kind: str = "command", within: float = 20.0, **expect: Any) -> RecoverStep:
    return RecoverStep(
        id=f"recovery.{name}",
        phase="recovery",
        probe=name,
        bounds=tolerances(kind, expect or {"exit_code": 0}),
        within_s=within,
        every_s=0.1,
    )


def rest(seconds: float = 300.0, **fields: Any) -> WaitStep:
    return WaitStep(id="rest", phase="under", seconds=seconds, **fields)


class Runner:
    """Starts `run-plan`; events are collected as they come."""

    def __init__(self, world: World, plan: Plan | None, *, first: bytes | None = None, **request: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._closed = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stormcell.guest", "run-plan"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "STORMCELL_RECEIPTS": str(world.receipts)},
        )
        if plan is not None:
            first = json.dumps({"plan": plan.model_dump(mode="json"), "start": 0, **request}).encode() + b"\n"
        world.runners.append(self)
        self.send(first or b"")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def say(self, **line: Any) -> None:
        self.send(json.dumps(line).encode() + b"\n")

    def hang_up(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._closed = True
            self._news.notify_all()

    def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The first event of that kind with those fields."""

        def found() -> dict[str, Any] | None:
            return next((e for e in self.events if e["event"] == kind and fields.items() <= e.items()), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._closed, PATIENCE)
            event = found()
        assert event is not None, (kind, fields, self.events)
        return event

    def end(self) -> list[dict[str, Any]]:
        """All events of a runner that ended by itself, checked for what holds of every one."""
        code = self.process.wait(PATIENCE)
        self.close()
        kinds = [event["event"] for event in self.events]
        assert kinds[-1] == "end", kinds
        assert [event["n"] for event in self.events] == list(range(len(self.events)))
        times = [event["t"] for event in self.events]
        assert times == sorted(times)
        assert code == (1 if "stop" in kinds else 0)
        return self.events

    def close(self) -> None:
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.close()


def perform(world: World, plan: Plan, **request: Any) -> list[dict[str, Any]]:
    """Run to the end."""
    return Runner(world, plan, **request).end()


def of(events: list[dict[str, Any]], kind: str, **fields: Any) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind and fields.items() <= event.items()]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The order of events, with labels and states."""
    return [
        " ".join(str(part) for part in (e["event"], e.get("label") or e.get("state") or e.get("code")) if part)
        for e in events
        if e["event"] != "step"
    ]


def eventually(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def alive(pid: str) -> bool:
    """A zombie that nobody reaped is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def worlds(tmp_path: Path) -> Iterator[World]:
    """A fixture: no runner of a failed test stays."""
    made = World(tmp_path)
    yield made
    for runner in made.runners:
        if runner.process.poll() is None:
            runner.kill()


def stop(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The one stop, which comes before whatever is undone, and `end` after that."""
    (found,) = of(events, "stop")
    return found
