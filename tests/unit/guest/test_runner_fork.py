"""What the real runner does at a moment, and how it is handed the rest of its plan, as in a fork of its machine."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from stormcell.spec.plan import (
    ApplyStep,
    ForkStep,
    LoadStep,
    MarkStep,
    MomentStep,
    RunStep,
    UndoStep,
    UnloadStep,
    WaitStep,
)
from stormcell.spec.probe import tolerances
from tests.unit.guest.runner_process import (
    PATIENCE,
    World,
    alive,
    eventually,
    kinds,
    of,
    perform,
    probe,
    recover,
    sh,
    stop,
    worlds,
)
from tests.unit.guest.runner_process import Runner as RealRunner

FORK = ForkStep(id="fork", phase="before")
UNLOAD = UnloadStep(id="unload", phase="undo", load="l", grace_s=0.5)
world = pytest.fixture(worlds)


@pytest.fixture(autouse=True)
def _place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORMCELL_RUNNER", str(world.folder / "runner.sock"))


def load(script: str) -> LoadStep:
    return LoadStep(id="load", phase="before", load="l", command=sh(script))


def moment(within: float = PATIENCE, **fields: Any) -> MomentStep:
    return MomentStep(id="moment", phase="before", text="it is time", within_s=within, every_s=0.05, **fields)


def at_the_fork(runner: RealRunner, world: World) -> str:
    """The pid that its load has written."""
    runner.until("await", step="fork")
    assert eventually(lambda: world.log.exists() and world.log.read_text().endswith("\n"))
    return world.log.read_text().strip()


class Joined(RealRunner):
    """The host's end in a fork: `join` instead of `run-plan`, and the same conversation."""

    def __init__(self, world: World, plan: Any) -> None:
        self.events = []
        self._news = threading.Condition()
        self._closed = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stormcell.guest", "join"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ),
        )
        world.runners.append(self)
        self.send(json.dumps({"plan": plan.model_dump(mode="json"), "start": 0}).encode() + b"\n")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def over(self) -> list[dict[str, Any]]:
        assert self.process.wait(PATIENCE) == 0
        self.close()
        assert [event["n"] for event in self.events] == list(range(len(self.events)))
        return self.events


def test_a_runner_goes_on_with_another_plan_and_its_loads_with_it(world: World) -> None:
    script = f"trap 'echo bye; exit 0' TERM; echo $$ > {world.log}; while :; do sleep 0.05; done"
    first = RealRunner(world, world.plan(load(script), FORK, faults={}))
    pid = at_the_fork(first, world)
    steps = (probe("before"), ApplyStep(id="a", phase="fault", fault="fault"), probe("under"))
    undo = UndoStep(id="u", phase="undo", fault="fault")
    then = Joined(world, world.plan(*steps, undo, UNLOAD, recover()))
    events = then.over()
    assert kinds(events)[0] == "begin"
    assert events[0]["pid"] == first.process.pid
    assert events[0]["t"] < first.events[-1]["t"] + PATIENCE
    assert [(e["state"], e.get("out")) for e in of(events, "load")] == [("goes_on", None), ("stopped", "bye\n")]
    assert [e["fault"] for e in of(events, "undone")] == ["fault"]
    assert eventually(lambda: not alive(pid))
    assert not (world.folder / "runner.sock").exists()
    assert first.process.wait(PATIENCE) == 0
    first.close()
    assert kinds(first.events)[-1] == "await"  # its first host hears no more


def test_a_host_that_leaves_a_joined_runner_ends_it_and_its_loads(world: World) -> None:
    first = RealRunner(world, world.plan(load(f"echo $$ > {world.log}; exec sleep 300"), FORK, faults={}))
    pid = at_the_fork(first, world)
    then = Joined(world, world.plan(ApplyStep(id="a", phase="fault", fault="fault"), WaitStep(
        id="rest", phase="under", seconds=300)))  # fmt: skip
    then.until("step", step="rest")
    then.hang_up()
    events = then.over()
    assert stop(events)["code"] == "interrupted"
    assert not world.fault.exists()
    assert not alive(pid)
    first.process.wait(PATIENCE)
    first.close()


def test_nobody_waits_to_be_joined(world: World) -> None:
    joined = Joined(world, world.plan(probe("before")))
    assert joined.process.wait(PATIENCE) == 1
    assert joined.process.stderr
    assert b"no runner waits" in joined.process.stderr.read()
    joined.close()


def test_a_waiting_runner_whose_host_is_gone_stops_its_loads(world: World) -> None:
    first = RealRunner(world, world.plan(load(f"echo $$ > {world.log}; exec sleep 300"), FORK, faults={}))
    pid = at_the_fork(first, world)
    first.hang_up()
    assert stop(first.end())["code"] == "interrupted"
    assert not alive(pid)


def test_the_control_marks_times_and_does_nothing(world: World) -> None:
    steps = (
        MarkStep(id="act", phase="fault", mark="act"),
        WaitStep(id="hold", phase="under", seconds=0.3, since_act=True),
        MarkStep(id="undo", phase="undo", mark="undo"),
        recover(),
    )
    events = perform(world, world.plan(WaitStep(id="w", phase="before", seconds=0.5), *steps, faults={}))
    starts = {e["step"]: e["t"] for e in of(events, "step")}
    assert starts["undo"] - starts["act"] >= 0.3
    (recovered,) = of(events, "recovered")
    assert recovered["began_s"] <= recovered["t"] - starts["undo"], "counted from the mark, not from the beginning"
    assert not of(events, "stop")


# moments


def test_a_moment_is_a_command_that_succeeds(world: World) -> None:
    command = sh(f"test $(wc -l < {world.log}) -ge 3")
    events = perform(
        world, world.plan(load(f"while :; do sleep 0.4; echo x >> {world.log}; done"), moment(command=command))
    )
    (came,) = of(events, "moment")
    assert came["looks"] >= 2
    assert len(world.log.read_text().split()) >= 3


def test_a_moment_is_a_line_that_is_written_after_the_run_began(world: World) -> None:
    world.log.write_text("ready\n")
    script = f"sleep 0.3; echo 'half of rea' | tr -d '\\n' >> {world.log}; sleep 0.3; echo dy >> {world.log}; sleep 300"
    events = perform(world, world.plan(load(script), moment(file=str(world.log), match="rea.*dy")))
    (came,) = of(events, "moment")
    assert came["text"] == "half of ready"


def test_a_log_that_is_replaced_is_read_from_its_beginning(world: World) -> None:
    world.log.write_text("a long line that was there\n" * 10)
    script = f"sleep 0.3; rm {world.log}; echo ready > {world.log}; sleep 300"
    assert of(perform(world, world.plan(load(script), moment(file=str(world.log), match="^ready$"))), "moment")


def test_a_log_that_comes_later_is_waited_for(world: World) -> None:
    script = f"sleep 0.3; echo ready > {world.log}; sleep 300"
    assert of(perform(world, world.plan(load(script), moment(file=str(world.log), match="ready"))), "moment")


@pytest.mark.parametrize("holds", [True, False])
def test_a_moment_is_a_probe_that_turns(world: World, holds: bool) -> None:
    (world.sick.touch if holds else world.sick.unlink)(*(() if holds else (True,)))
    looked = f"test -e {world.log} && test $(wc -l < {world.log}) -ge 2"
    script = f"until {looked}; do sleep 0.05; done; {'rm' if holds else 'touch'} {world.sick}; sleep 300"
    spec = {**world.plan().probes["well"].spec, "run": ["sh", "-c", f"echo >> {world.log}; test ! -e {world.sick}"]}
    spec.pop("number")
    bounds = tolerances("command", {"exit_code": 0})
    step = moment(probe="well", spec=spec, bounds=bounds, holds=holds)
    (came,) = of(perform(world, world.plan(load(script), step)), "moment")
    assert came["looks"] >= 2


def test_a_moment_is_a_time_under_load(world: World) -> None:
    (came,) = of(perform(world, world.plan(load("sleep 300"), moment(after_s=0.4))), "moment")
    assert came["seconds"] >= 0.4


@pytest.mark.parametrize(
    "fields",
    [{"command": sh("echo not yet; false")}, {"command": sh("sleep 300")}, {"file": "/nowhere/log", "match": "x"}],
)
def test_a_moment_that_does_not_come_ends_the_run_with_what_was_seen(world: World, fields: dict[str, Any]) -> None:
    written = RunStep(id="written", phase="before", command=sh(f"until test -s {world.log}; do sleep 0.05; done"))
    sleeper = load(f"echo $$ > {world.log}; exec sleep 300")
    events = perform(world, world.plan(sleeper, written, moment(0.4, **fields), FORK))
    assert stop(events)["code"] == "no_moment"
    assert "did not come within 0.4 s (it is time)" in stop(events)["text"]
    assert eventually(lambda: not alive(world.log.read_text().strip()))
