"""Faults with a schedule, abort conditions and the watchdog: what goes on beside the steps of a run."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stormcell.guest import timeline
from stormcell.spec.plan import (
    ApplyStep,
    InventoryStep,
    Level,
    Moment,
    PlannedAbort,
    PlannedFault,
    Step,
    UndoStep,
    WatchStep,
)
from stormcell.spec.probe import tolerances
from tests.unit.guest.runner_process import Runner, World, eventually, kinds, of, perform, probe, rest, sh, worlds

APPLY = ApplyStep(id="apply", phase="fault", fault="fault")
UNDO = UndoStep(id="undo", phase="undo", fault="fault")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from worlds(tmp_path)


def moments(*said: tuple[float, str, int]) -> tuple[Moment, ...]:
    return tuple(Moment.model_validate({"at_s": at, "do": do, "level": level}) for at, do, level in said)


def two_levels(world: World, *, in_place: bool) -> PlannedFault:
    level: dict[str, Any] = {"read": (sh(f"cat {world.fault}", "fault"),), "undo": (sh(f"rm {world.fault}"),)}
    change = (sh(f"test -e {world.fault} && echo two > {world.fault}"),) if in_place else ()
    return world.planned_fault(
        levels=(
            Level(params={"n": 1}, apply=(sh(f"set -C; echo one > {world.fault}"),), **level),
            Level(params={"n": 2}, apply=(sh(f"set -C; echo two > {world.fault}"),), change=change, **level),
        ),
        moments=moments((0, "apply", 0), (0.3, "change", 1))
        if in_place
        else moments((0, "apply", 0), (0.3, "undo", 0), (0.3, "apply", 1)),
    )


def seen(events: list[dict[str, Any]], label: str) -> list[str]:
    return [e["reading"]["outputs"]["fault"]["out"].strip() for e in of(events, "reading", label=label)]


def test_pulses_come_and_go_while_the_steps_go_on(world: World) -> None:
    pulses = moments((0, "apply", 0), (0.3, "undo", 0), (0.6, "apply", 0), (0.9, "undo", 0))
    fault = world.planned_fault(moments=pulses, over_s=0.9)
    wait = rest(0, schedules=True)
    events = perform(world, world.plan(APPLY, probe("under"), wait, UNDO, faults={"fault": fault}))
    assert [e["do"] for e in of(events, "moment")] == ["apply", "undo", "apply", "undo"]
    assert [e.get("cycle", 0) for e in of(events, "applied")] == [0, 1]
    assert seen(events, "during") == ["on", "on"]
    assert seen(events, "undone") == ["", ""]
    at = [e["at"] for e in of(events, "moment")]
    assert all(later - at[0] >= 0.29 * number for number, later in enumerate(at))
    assert not world.fault.exists()
    assert not list(world.receipts.glob("*.json"))


def held(events: list[dict[str, Any]]) -> list[float]:
    """Seconds from each act's end to the next turn's begin."""
    ends = [e["until"] for e in of(events, "undone")] + [e["tried"] for e in of(events, "applied")]
    return [min(end for end in ends if end > e["since"]) - e["since"] for e in of(events, "applied")]


def test_a_slow_act_takes_nothing_from_the_time_in_force(world: World) -> None:
    """On a slow guest an act takes longer than the whole pulse."""
    pulses = moments((0, "apply", 0), (0.3, "undo", 0), (0.5, "apply", 0), (0.8, "undo", 0))
    slow = world.planned_fault(apply=(sh(f"sleep 0.5; echo on > {world.fault}"),), moments=pulses, over_s=0.8)
    wait = rest(0, schedules=True)
    events = perform(world, world.plan(APPLY, wait, UNDO, faults={"fault": slow}))
    assert len(held(events)) == 2
    assert min(held(events)) >= 0.3
    gap = of(events, "applied")[1]["tried"] - of(events, "undone")[0]["until"]
    assert gap >= 0.2


@pytest.mark.parametrize("in_place", [True, False])
def test_slow_readings_take_nothing_from_the_levels_of_a_ramp(world: World, in_place: bool) -> None:
    fault = two_levels(world, in_place=in_place)
    levels = tuple(
        level.model_copy(update={"read": (sh(f"sleep 0.2; cat {world.fault}", "fault"),)}) for level in fault.levels
    )
    fault = fault.model_copy(update={"levels": levels, "over_s": 0.6})
    wait = rest(0, schedules=True)
    events = perform(world, world.plan(APPLY, wait, UNDO, faults={"fault": fault}))
    assert len(held(events)) == 2
    assert min(held(events)) >= 0.3


def test_what_a_turn_is_counted_from() -> None:
    """The one before it was due at 2 s and was done at 13.4 s; the schedule began at 10 s."""
    assert timeline.when({"at_s": 2.5}, 10, 13.4, 2) == pytest.approx(13.9)
    assert timeline.when({"at_s": 2.5, "counted": "previous"}, 10, 13.4, 2) == pytest.approx(13.9)
    assert timeline.when({"at_s": 2.5, "counted": "start"}, 10, 13.4, 2) == 12.5


def test_a_schedule_that_is_not_over_is_undone_by_the_undo_step(world: World) -> None:
    fault = world.planned_fault(moments=moments((0.1, "apply", 0)))
    waits = probe("under").model_copy(update={"on": "host"})
    runner = Runner(world, world.plan(APPLY, waits, UNDO, faults={"fault": fault}))
    runner.until("await")
    runner.until("reading", label="during")
    runner.say(go="under.well")
    events = runner.end()
    assert kinds(events)[-4:] == ["reading after", "undone", "reading undone", "end"]
    assert not world.fault.exists()


def test_a_schedule_whose_turn_never_came_leaves_no_trace(world: World) -> None:
    fault = world.planned_fault(moments=moments((60, "apply", 0)))
    events = perform(world, world.plan(APPLY, UNDO, faults={"fault": fault}))
    assert not of(events, "receipt")
    assert not of(events, "stop")


@pytest.mark.parametrize("in_place", [True, False])
def test_a_ramp_goes_through_its_levels(world: World, in_place: bool) -> None:
    fault = two_levels(world, in_place=in_place).model_copy(update={"over_s": 0.6})
    events = perform(world, world.plan(APPLY, rest(0, schedules=True), UNDO, faults={"fault": fault}))
    assert seen(events, "during") == ["one", "two"]
    assert [(e["cycle"], e["level"]) for e in of(events, "reading", label="during")[1:]] == [(1, 1)]
    assert len(of(events, "undone")) == (1 if in_place else 2)
    assert not world.fault.exists()


def test_a_turn_of_a_schedule_that_fails_ends_the_run_and_is_undone(world: World) -> None:
    fault = world.planned_fault(
        apply=(sh(f"echo on > {world.fault}; echo no such device >&2; exit 2"),), moments=moments((0, "apply", 0))
    )
    events = perform(world, world.plan(APPLY, rest(), UNDO, faults={"fault": fault}))
    (stop,) = of(events, "stop")
    assert (stop["code"], "no such device" in stop["text"]) == ("apply_failed", True)
    assert not world.fault.exists()


def test_a_turn_that_finds_nobody_passes_and_the_next_one_comes(world: World) -> None:
    """The second of three: whoever it is about has not come back yet."""
    once = (
        f"test $(wc -l < {world.fault}.turns) != 2 || {{ echo there is nobody >&2; exit 3; }}; echo on > {world.fault}"
    )
    act = sh(f"echo turn >> {world.fault}.turns; {once}").model_copy(update={"nobody": 3})
    turns = [(at + more, do, 0) for at in (0, 0.2, 0.4) for more, do in ((0, "apply"), (0.1, "undo"))]
    fault = world.planned_fault(apply=(act,), undo=(sh(f"rm -f {world.fault}"),), moments=moments(*turns))
    fault = fault.model_copy(update={"over_s": 0.5})
    events = perform(world, world.plan(APPLY, rest(0, schedules=True), UNDO, faults={"fault": fault}))
    assert of(events, "stop") == []
    assert [(e["ok"], "there is nobody" in e.get("nobody", "")) for e in of(events, "applied")] == [
        (True, False), (False, True), (True, False)]  # fmt: skip
    assert seen(events, "during") == ["on", "", "on"]
    assert not world.fault.exists()


def test_nobody_is_a_failure_where_there_is_one_turn(world: World) -> None:
    act = sh("echo there is nobody >&2; exit 3").model_copy(update={"nobody": 3})
    fault = world.planned_fault(apply=(act,), moments=moments((0, "apply", 0), (0.3, "undo", 0)))
    events = perform(world, world.plan(APPLY, rest(), UNDO, faults={"fault": fault}))
    assert [e["code"] for e in of(events, "stop")] == ["apply_failed"]


def test_two_faults_are_begun_in_order_and_undone_in_the_reverse_one(world: World) -> None:
    first = world.planned_fault(apply=(sh(f"echo 1 >> {world.log}"),), undo=(sh(f"echo undo 1 >> {world.log}"),))
    second = world.planned_fault(apply=(sh(f"echo 2 >> {world.log}"),), undo=(sh(f"echo undo 2 >> {world.log}"),))
    steps: list[Step] = [ApplyStep(id=f"apply.{name}", phase="fault", fault=name) for name in "ab"]
    steps += [UndoStep(id=f"undo.{name}", phase="undo", fault=name) for name in "ba"]
    perform(world, world.plan(*steps, faults={"a": first, "b": second}))
    assert world.log.read_text().splitlines() == ["1", "2", "undo 2", "undo 1"]


def test_a_run_that_ends_early_undoes_all_of_several_faults(world: World) -> None:
    second = world.folder / "second"
    faults = {
        "a": world.planned_fault(),
        "b": world.planned_fault(apply=(sh(f"touch {second}"),), undo=(sh(f"rm {second}"),),
                                 moments=moments((0, "apply", 0))),
    }  # fmt: skip
    applies = [APPLY.model_copy(update={"fault": name}) for name in "ab"]
    runner = Runner(world, world.plan(*applies, rest(), faults=faults))
    runner.until("applied", fault="b")
    runner.say(stop="interrupted", text="enough")
    events = runner.end()
    assert not world.fault.exists()
    assert not second.exists()
    assert {e["fault"] for e in of(events, "undone")} == {"a", "b"}


def test_a_schedule_that_dies_is_no_schedule(world: World) -> None:
    fault = world.planned_fault(
        apply=(sh(f"echo on > {world.fault}; kill -9 $PPID"),), moments=moments((0, "apply", 0))
    )
    events = perform(world, world.plan(APPLY, rest(), UNDO, faults={"fault": fault}))
    assert of(events, "stop")[0]["code"] == "runner_error"
    assert not world.fault.exists()
    assert not list(world.receipts.glob("*.json"))


# abort conditions


def abort(**fields: Any) -> PlannedAbort:
    return PlannedAbort(name="it", every_s=0.1, **fields)


WATCH = WatchStep(id="watch", phase="fault")


def test_a_number_in_a_file_that_passes_its_bound_ends_the_run(world: World) -> None:
    world.log.write_text("low 1\noom_kill 0\n")
    plan = world.plan(
        WATCH, APPLY, rest(), UNDO,
        aborts=(abort(file=str(world.log), key="oom_kill", bounds=tolerances("command", {"number": "> 2"})),),
    )  # fmt: skip
    runner = Runner(world, plan)
    runner.until("applied")
    time.sleep(0.3)
    assert not of(runner.events, "abort")
    world.log.write_text("low 1\noom_kill 3\n")
    events = runner.end()
    (stop,) = of(events, "stop")
    assert stop["code"] == "aborted"
    assert "number is 3 (> 2)" in stop["text"]
    assert not world.fault.exists()


def test_a_probe_that_passes_its_bound_ends_the_run(world: World) -> None:
    well = {"run": ["test", "!", "-e", str(world.sick)], "number": None, "match": None, "timeout": 5}
    plan = world.plan(
        WATCH, APPLY, rest(), UNDO,
        aborts=(abort(probe="well", bounds=tolerances("command", {"exit_code": "!= 0"}), spec=well),),
    )  # fmt: skip
    runner = Runner(world, plan)
    runner.until("applied")
    world.sick.touch()
    events = runner.end()
    assert of(events, "abort")[0]["condition"] == "it"
    assert of(events, "stop")[0]["code"] == "aborted"


def test_a_condition_that_is_not_met_is_no_matter(world: World) -> None:
    world.log.write_text("1\n")
    condition = abort(file=str(world.log), bounds=tolerances("command", {"number": "> 2"}))
    events = perform(world, world.plan(WATCH, APPLY, rest(0.5), UNDO, aborts=(condition,)))
    assert not of(events, "stop")


@pytest.mark.parametrize("turns", [(), moments((0, "apply", 0))])
@pytest.mark.parametrize("slow", ["apply", "read"])
def test_a_condition_that_is_met_in_the_middle_of_an_act_ends_the_run_and_the_act_is_undone(
    world: World, turns: tuple[Moment, ...], slow: str
) -> None:
    world.log.write_text("0\n")
    act = f"echo on > {world.fault}; echo 3 > {world.log}"
    read = sh(f"cat {world.fault} && {'sleep 60' if slow == 'read' else 'true'}", "fault", accept=(0, 1))
    fault = world.planned_fault(
        apply=(sh(f"{act}; sleep 60" if slow == "apply" else act, timeout_s=90),),
        read=(read.model_copy(update={"timeout_s": 1.0}),),
        undo=(sh(f"rm {world.fault}"),),
        moments=turns,
    )
    condition = abort(file=str(world.log), bounds=tolerances("command", {"number": "> 2"}))
    plan = world.plan(WATCH, APPLY, rest(), UNDO, aborts=(condition,), faults={"fault": fault})
    events = perform(world, plan)
    assert of(events, "stop")[0]["code"] == "aborted"
    assert of(events, "receipt")
    assert not of(events, "reading", label="during")
    assert of(events, "undone")[0]["ok"]
    assert not world.fault.exists()


@pytest.mark.parametrize(
    ("content", "key", "code", "said"),
    [
        (None, None, "abort_unreadable", "No such file"),
        ("low 1\nhigh 2\n", "oom_kill", "abort_unreadable", "has no 'oom_kill'; its keys are low, high"),
        ("low 1\n", None, "abort_unreadable", "no line with one number"),
        ("max\n", None, "abort_unreadable", "'max' there, which is no number"),
        ("7\n", None, "aborted_before", "is met before any fault is begun: it: number is 7 (> 2)"),
    ],
)
def test_a_condition_is_looked_at_before_the_first_act(
    world: World, content: str | None, key: str | None, code: str, said: str
) -> None:
    if content is not None:
        world.log.write_text(content)
    condition = abort(file=str(world.log), key=key, bounds=tolerances("command", {"number": "> 2"}))
    events = perform(world, world.plan(WATCH, APPLY, UNDO, aborts=(condition,)))
    (stop,) = of(events, "stop")
    assert (stop["code"], said in stop["text"]) == (code, True), stop
    assert not of(events, "receipt")


def test_a_condition_on_a_probe_is_compared_with_what_it_measured_before(world: World) -> None:
    condition = abort(probe="well", bounds=tolerances("command", {"exit_code": "== 0"}), spec={})
    events = perform(world, world.plan(probe("before"), WATCH, APPLY, UNDO, aborts=(condition,)))
    assert of(events, "stop")[0]["code"] == "aborted_before"


# the watchdog


def recovered(world: World) -> list[dict[str, Any]]:
    path = world.receipts / "recovered.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_runner_that_is_killed_is_outlived_by_its_undo(world: World) -> None:
    runner = Runner(world, world.plan(APPLY, rest(), UNDO))
    runner.until("reading", label="during")
    runner.kill()
    assert eventually(lambda: not world.fault.exists())
    assert eventually(lambda: bool(recovered(world)))
    (done,) = recovered(world)
    assert (done["fault"], done["recovered_by"], done["ok"]) == ("fault", "runner_died", True)
    assert not list(world.receipts.glob("*.json"))


def test_a_runner_that_is_killed_takes_its_schedules_along(world: World) -> None:
    fault = world.planned_fault(moments=moments((0, "apply", 0), (5, "undo", 0), (5.1, "apply", 0)))
    runner = Runner(world, world.plan(APPLY, rest(), UNDO, faults={"fault": fault}))
    runner.until("reading", label="during")
    runner.kill()
    assert eventually(lambda: not world.fault.exists())
    time.sleep(0.5)
    assert not world.fault.exists()
    assert not list(world.receipts.glob("*.json"))


def test_a_runner_that_hangs_is_overtaken_by_the_ttl(world: World) -> None:
    plan = world.plan(
        APPLY, rest(), UNDO, ttl_s=3.0, faults={"fault": world.planned_fault(undo=(sh(f"rm -f {world.fault}"),))}
    )
    events = perform(world, plan)
    assert of(events, "stop")[0]["code"] == "ttl"
    assert recovered(world)[0]["recovered_by"] == "ttl"
    assert not world.fault.exists()


def test_an_ordinary_run_leaves_no_watchdog(world: World) -> None:
    events = perform(world, world.plan(APPLY, UNDO))
    (armed,) = of(events, "watchdog")
    assert not Path(f"/proc/{armed['pid']}").exists()
    assert kinds(events).index("watchdog") < kinds(events).index("receipt")


# the inventory


def test_the_inventory_names_what_is_left(world: World, tmp_path: Path) -> None:
    before = InventoryStep(id="inventory.before", phase="before", label="before")
    after = InventoryStep(id="inventory.undone", phase="undo", label="undone")
    events = perform(world, world.plan(before, APPLY, UNDO, after))
    first, last = of(events, "inventory")
    assert first["sizes"]["mounts"] > 0
    assert first["sizes"]["sysctls"] > 50
    assert [item for item in last["differences"] if item["what"] in ("mounts", "sysctls", "clocks")] == []


def test_a_schedule_is_waited_for(world: World) -> None:
    wait = rest(0, schedules=True)
    slow = world.planned_fault(
        apply=(sh(f"sleep 0.4; echo on > {world.fault}"),), moments=moments((0.1, "apply", 0), (0.2, "undo", 0))
    )
    stays = two_levels(world, in_place=True).model_copy(update={"over_s": 1.2})
    for fault, turns in ((slow, 2), (stays, 2)):
        events = perform(world, world.plan(APPLY, wait, UNDO, faults={"fault": fault}))
        assert len(of(events, "moment")) == turns
    after = of(events, "reading", label="after")[-1]["reading"]["at"]
    assert after - of(events, "applied")[0]["at"] >= 0.9
