"""What the real runner does with loads, commands and recoveries."""

import signal
import socket
from typing import Any

import pytest

from stormcell.spec.plan import ApplyStep, LoadStep, PlannedProbe, RunStep, UndoStep, UnloadStep
from tests.unit.guest.runner_process import Runner as RealRunner
from tests.unit.guest.runner_process import (
    World,
    alive,
    eventually,
    kinds,
    of,
    perform,
    recover,
    rest,
    sh,
    stop,
    worlds,
)

APPLY = ApplyStep(id="apply", phase="fault", fault="fault")
UNDO = UndoStep(id="undo", phase="undo", fault="fault")
world = pytest.fixture(worlds)


# loads


def load(script: str) -> LoadStep:
    return LoadStep(id="load", phase="before", load="l", command=sh(script))


UNLOAD = UnloadStep(id="unload", phase="undo", load="l", grace_s=0.5)
PATIENT = UNLOAD.model_copy(update={"grace_s": 60.0})


def until_written(world: World) -> RunStep:
    """Until a load has written the log."""
    return RunStep(id="written", phase="before", command=sh(f"until test -s {world.log}; do sleep 0.05; done"))


def test_a_load_runs_until_it_is_stopped(world: World) -> None:
    script = f"trap 'echo bye; exit 0' TERM; echo hello; while :; do date +%s%N > {world.log}; sleep 0.05; done"
    events = perform(world, world.plan(load(script), until_written(world), PATIENT))
    assert kinds(events) == ["begin", "load started", "output", "load stopped", "end"]
    (stopped,) = of(events, "load", state="stopped")
    assert (stopped["exit"], stopped["out"], stopped["note"]) == (0, "hello\nbye\n", "")


def test_a_load_that_does_not_heed_is_killed_with_its_tree(world: World) -> None:
    script = f"trap '' TERM; setsid sh -c 'echo $$ > {world.log}; exec sleep 300' & while :; do sleep 1; done"
    events = perform(world, world.plan(load(script), until_written(world), UNLOAD))
    (stopped,) = of(events, "load", state="stopped")
    assert "did not heed SIGTERM within 0.5 s" in stopped["note"]
    assert eventually(lambda: not alive(world.log.read_text().strip()))


def test_a_load_that_never_worked(world: World) -> None:
    for _ in range(10):  # "at once" is a fifth of a second
        events = perform(world, world.plan(load("echo no such file >&2; exit 4"), rest(1)))
        if of(events, "stop"):
            break
    assert stop(events)["code"] == "load_failed"
    assert "ended at once with 4: no such file" in stop(events)["text"]
    missing = load("").model_copy(update={"command": sh("").model_copy(update={"argv": ("no-such-program",)})})
    assert stop(perform(world, world.plan(missing)))["code"] == "load_failed"


def test_a_load_that_leaves_early_is_told(world: World) -> None:
    script = f"echo $$ > {world.log}; sleep 0.4; echo done; exit 5"
    over = f"! kill -0 $(cat {world.log}) || grep -q ') Z ' /proc/$(cat {world.log})/stat"
    ended = RunStep(id="ended", phase="before", command=sh(f"until {over}; do sleep 0.05; done 2>/dev/null"))
    events = perform(world, world.plan(load(script), until_written(world), ended, rest(0.5), UNLOAD))
    (exited,) = of(events, "load", state="exited")
    assert (exited["exit"], exited["out"]) == (5, "done\n")
    assert exited["seconds"] >= 0.4
    assert of(events, "load", state="stopped")[0]["note"] == "it had ended by itself"
    assert not of(events, "stop")


def test_a_load_that_talks_without_end_is_bounded(world: World) -> None:
    script = f"yes | head -c 1000000; echo > {world.log}; exec yes"
    events = perform(world, world.plan(load(script), until_written(world), UNLOAD))
    (stopped,) = of(events, "load", state="stopped")
    assert (len(stopped["out"]), stopped["truncated"]) == (256 << 10, True)


def test_loads_are_stopped_at_an_early_end(world: World) -> None:
    runner = RealRunner(world, world.plan(load(f"echo $$ > {world.log}; exec sleep 300"), APPLY, rest()))
    runner.until("step", step="rest")
    assert eventually(lambda: world.log.exists() and world.log.read_text().endswith("\n"))
    runner.process.send_signal(signal.SIGTERM)
    events = runner.end()
    assert kinds(events)[-2:] == ["load stopped", "end"]
    assert not alive(world.log.read_text().strip())
    assert not world.fault.exists()


# commands


def test_outputs_are_bounded_and_kept_apart(world: World) -> None:
    script = "yes out | head -c 400000; yes err | head -c 400000 >&2"
    (output,) = of(perform(world, world.plan(RunStep(id="s", phase="setup", command=sh(script)))), "output")
    assert (len(output["out"]), len(output["err"]), output["truncated"]) == (256 << 10, 256 << 10, True)
    assert set(output["out"]) == set("out\n")


def test_a_command_has_its_input_folder_and_environment(world: World) -> None:
    command = sh("cat; pwd; echo $COLOUR", stdin="x" * 200_000, cwd=str(world.folder), env={"COLOUR": "blue"})
    (output,) = of(perform(world, world.plan(RunStep(id="s", phase="setup", command=command))), "output")
    assert output["out"] == f"{'x' * 200_000}{world.folder}\nblue\n"


def test_bytes_that_are_no_text(world: World) -> None:
    command = sh(r"printf '\377\000ok'")
    (output,) = of(perform(world, world.plan(RunStep(id="s", phase="setup", command=command))), "output")
    assert output["out"] == "\ufffd\0ok"


@pytest.mark.parametrize("field", [{"cwd": "/no/such/folder"}, {"user": "no-such-user"}])
def test_a_command_that_cannot_be_started(world: World, field: Any) -> None:
    events = perform(world, world.plan(RunStep(id="s", phase="setup", command=sh("true", **field))))
    (output,) = of(events, "output")
    assert output["exit"] is None
    assert "it was not started" in output["err"]
    assert stop(events)["code"] == "setup_failed"


# recovery


def test_recovery_is_waited_for(world: World) -> None:
    world.sick.touch()
    tried = f"test -e {world.log} && test $(wc -l < {world.log}) -ge 2"
    script = f"until {tried}; do sleep 0.05; done; sleep 0.4; rm {world.sick}; sleep 300"
    heal = LoadStep(id="heal", phase="undo", load="h", command=sh(script))
    spec = {"run": ["sh", "-c", f"echo >> {world.log}; test ! -e {world.sick}"], "timeout": 30.0}
    well = PlannedProbe(kind="command", vantage="guest", spec=spec)
    plan = world.plan(APPLY, UNDO, heal, recover(), probes={"well": well})
    (recovered,) = of(perform(world, plan), "recovered")
    assert recovered["holds"] is True
    assert recovered["attempts"] >= 2
    assert 0 < recovered["began_s"] < recovered["seconds"] < 20
    assert recovered["seconds"] > 0.4


def test_recovery_has_a_limit(world: World) -> None:
    world.sick.touch()
    (recovered,) = of(perform(world, world.plan(APPLY, UNDO, recover(within=3.0))), "recovered")
    assert recovered["holds"] is False
    assert recovered["attempts"] > 1
    assert recovered["began_s"] <= 3.0


def test_recovery_by_http_is_a_few_attempts_a_try(world: World) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        web = PlannedProbe(
            kind="http", vantage="guest", spec={"url": url, "rate": 4.0, "duration": 60.0, "timeout": 1.0}
        )
        step = recover("web", "http", within=0.5, success_rate=">= 50%", sent=">= 200")
        (recovered,) = of(perform(world, world.plan(step, probes={"web": web})), "recovered")
    assert "each try is 4 attempts one after another" in recovered["detail"]
    assert [check["metric"] for check in recovered["checks"]] == ["success_rate"]
    assert [sample[2] for sample in recovered["samples"]] == ["refused"] * 3, "a fourth could not save it"
