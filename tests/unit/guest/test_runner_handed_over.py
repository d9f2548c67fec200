"""A real runner that is left in the middle of its plan and handed another one."""

from typing import Any

import pytest

from stormcell.spec.plan import ApplyStep, LoadStep, Moment, PlannedFault, UndoStep, UnloadStep, WaitStep
from tests.unit.guest.runner_process import (
    PATIENCE,
    Runner,
    World,
    alive,
    eventually,
    kinds,
    of,
    probe,
    rest,
    sh,
    worlds,
)
from tests.unit.guest.test_runner_fork import Joined

APPLY, UNDO = ApplyStep(id="a", phase="fault", fault="fault"), UndoStep(id="u", phase="undo", fault="fault")
LOAD = LoadStep(id="load", phase="before", load="l", command=sh("exec sleep 300"))
UNLOAD = UnloadStep(id="unload", phase="undo", load="l", grace_s=0.5)
world = pytest.fixture(worlds)


@pytest.fixture(autouse=True)
def _place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORMCELL_RUNNER", str(world.folder / "runner.sock"))


def under_the_fault(world: World, **changes: Any) -> Runner:
    runner = Runner(world, world.plan(LOAD, APPLY, rest(), UNDO, **changes))
    runner.until("step", step="rest")
    assert eventually(world.fault.exists)
    return runner


def leave(runner: Runner) -> None:
    """It ended with the plan that it was handed."""
    assert runner.process.wait(PATIENCE) == 0
    runner.close()


def test_what_it_began_is_undone_and_its_loads_go_on_with_the_other_plan(world: World) -> None:
    first = under_the_fault(world)
    first.say(hand_over=True, keep=False)
    assert first.until("await", step="hand_over")
    assert kinds(first.events)[-4:] == ["reading after", "undone", "reading undone", "await"]
    assert not world.fault.exists()
    then = Joined(world, world.plan(probe("before"), APPLY, WaitStep(id="w", phase="under", seconds=0.1), UNDO, UNLOAD))
    events = then.over()
    assert [event["state"] for event in of(events, "load")] == ["goes_on", "stopped"]
    assert [event["ok"] for event in of(events, "undone")] == [True]
    assert of(events, "probe")[0]["holds"]
    assert kinds(events)[-1] == "end"
    leave(first)


def test_what_is_to_stay_stays_beside_the_other_plans_fault_of_the_same_name(world: World) -> None:
    other = world.folder / "other"
    first = under_the_fault(world)
    pid = str(of(first.events, "watchdog")[0]["pid"])
    first.say(hand_over=True, keep=True)
    first.until("await", step="hand_over")
    assert not of(first.events, "undone")
    assert not alive(pid)
    another = PlannedFault(kind="test.other", params={}, counts="files", apply=(sh(f"touch {other}"),),
                           undo=(sh(f"rm {other}"),), read=(sh(f"ls {other}; true", "other"),))  # fmt: skip
    then = Joined(world, world.plan(APPLY, UNDO, faults={"fault": another}))
    events = then.over()
    assert [event["ok"] for event in of(events, "undone")] == [True]
    assert world.fault.exists()
    assert not other.exists()
    leave(first)


def test_a_schedule_that_is_to_stay_goes_on_unheard(world: World) -> None:
    turns = tuple(Moment(at_s=0.2 * n, do="undo" if n % 2 else "apply") for n in range(200))
    fault = world.planned_fault(moments=turns, over_s=40.0)
    first = under_the_fault(world, faults={"fault": fault})
    first.say(hand_over=True, keep=True)
    first.until("await", step="hand_over")
    told = world.log.read_text() if world.log.exists() else ""
    then = Joined(world, world.plan(WaitStep(id="w", phase="under", seconds=1.5), faults={}))
    assert not [event for event in then.over() if "fault" in event]
    assert world.log.read_text().count("undone") > told.count("undone")
    leave(first)


def test_a_run_that_is_ending_is_not_handed_over(world: World) -> None:
    slow = world.planned_fault(undo=(sh(f"touch {world.folder}/undoing; sleep 1; rm -f {world.fault}"),))
    first = Runner(world, world.plan(APPLY, rest(), faults={"fault": slow}))
    first.until("step", step="rest")
    first.say(stop="asked", text="end")
    assert eventually((world.folder / "undoing").exists)
    first.say(hand_over=True, keep=False)
    events = first.end()
    assert not of(events, "await")
    assert of(events, "stop")[0]["code"] == "asked"
