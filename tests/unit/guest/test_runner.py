"""The real runner, as an ordinary user, with plans of plain commands."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from stormcell.judge.verdict import judge
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.plan import ApplyStep, PlannedProbe, RunStep, UndoStep
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Verdict
from tests.unit.guest.runner_process import Runner as RealRunner
from tests.unit.guest.runner_process import (
    World,
    alive,
    eventually,
    kinds,
    of,
    perform,
    probe,
    recover,
    rest,
    sh,
    stop,
    worlds,
)

APPLY = ApplyStep(id="apply", phase="fault", fault="fault")
UNDO = UndoStep(id="undo", phase="undo", fault="fault")


world = pytest.fixture(worlds)


def was_undone(events: list[dict[str, Any]], world: World) -> bool:
    after = kinds(events)[kinds(events).index("receipt") :]
    order = [kind for kind in after if kind.startswith(("stop", "reading", "undone", "end"))]
    assert order[-4:] == ["reading after", "undone", "reading undone", "end"], order
    return not world.fault.exists() and not list(world.receipts.iterdir())


# the good way


def test_a_whole_plan(world: World) -> None:
    events = perform(world, world.plan(*world.whole()))
    assert kinds(events) == [
        "begin", "needs", "probe", "watchdog", "reading before", "receipt", "applied", "reading during", "probe",
        "reading after", "undone", "reading undone", "recovered", "end",
    ]  # fmt: skip
    assert [event["step"] for event in of(events, "step")] == [step.id for step in world.whole()]
    readings = {event["label"]: event["reading"]["outputs"] for event in of(events, "reading")}
    assert [readings[label]["fault"]["exit"] for label in ("before", "during", "after", "undone")] == [1, 0, 0, 1]
    for event in of(events, "reading"):
        Reading.model_validate(event["reading"])
    assert of(events, "begin")[0]["boot_id"]
    assert not world.fault.exists()


def test_what_the_runner_writes_the_judge_can_judge(world: World) -> None:
    plan = world.plan(*world.whole())
    receipt = Receipt(
        fault="fault", kind="test.file", params={}, counts="files", apply_ok=True, undo_ok=True,
        in_force=True, acted=1, clean=True,
    )  # fmt: skip
    assert judge(plan, perform(world, plan), {"fault": receipt}).verdict == Verdict.SURVIVED
    sick = world.plan(
        *world.whole(RunStep(id="sicken", phase="under", command=sh(f"touch {world.sick}")), probe("under"))
    )
    events = perform(world, sick.model_copy(update={"steps": (*sick.steps[:-1], recover(within=0.3))}))
    result = judge(
        sick.model_copy(update={"steps": (*sick.steps[:-1], recover(within=0.3))}), events, {"fault": receipt}
    )
    assert [reason.code for reason in result.reasons] == ["out_of_bounds", "recovery_failed"]


def test_the_undo_is_written_down_before_the_act(world: World) -> None:
    act = sh(f"cp {world.receipts}/fault.json {world.folder}/seen && echo on > {world.fault}")
    plan = world.plan(*world.whole(), faults={"fault": world.planned_fault(apply=(act,))})
    (receipt,) = of(perform(world, plan), "receipt")
    seen = json.loads((world.folder / "seen").read_text())
    assert seen["undo"] == receipt["undo"]
    assert f"echo undone {os.getuid()} >>" in receipt["undo"][0]["argv"][2]
    assert world.log.read_text() == f"undone {os.getuid()}\n"


def test_an_undo_reads_its_input_from_the_reading_before(world: World) -> None:
    world.log.write_text("old value\n")
    fault = world.planned_fault(
        read=(sh(f"cat {world.log}", "value"),),
        apply=(sh(f"echo new > {world.log}"),),
        undo=(sh(f"cat > {world.log}", stdin="{before:value}\n"),),
    )
    perform(world, world.plan(APPLY, UNDO, faults={"fault": fault}))
    assert world.log.read_text() == "old value\n"


def test_waits_are_kept(world: World) -> None:
    events = perform(world, world.plan(APPLY, rest(0.6, since_act=True), UNDO))
    (applied,) = of(events, "applied")
    after = of(events, "reading", label="after")[0]["reading"]
    assert after["at"] - applied["t"] >= 0.59


def test_a_command_of_our_own_is_served_by_the_runner(world: World) -> None:
    ours = sh("").model_copy(update={"argv": ("stormcell-guest", "needs"), "stdin": '{"x": {"paths": ["/none"]}}'})
    (output,) = of(perform(world, world.plan(RunStep(id="ours", phase="setup", command=ours))), "output")
    assert json.loads(output["out"]) == {"x": ["path '/none' is not there"]}


# early ends


def test_a_setup_that_fails(world: World) -> None:
    events = perform(
        world, world.plan(RunStep(id="s", phase="setup", command=sh("echo no room >&2; exit 3")), *world.whole())
    )
    assert stop(events)["code"] == "setup_failed"
    assert stop(events)["text"] == "the step 's' ended with exit code 3: no room"
    assert not of(events, "reading")


def test_a_setup_that_hangs(world: World) -> None:
    events = perform(world, world.plan(RunStep(id="s", phase="setup", command=sh("sleep 300", timeout_s=0.3))))
    assert stop(events)["text"] == "the step 's' failed (timeout)"
    assert of(events, "output")[0]["exit"] is None


def test_an_exit_code_that_is_accepted(world: World) -> None:
    perform(world, world.plan(RunStep(id="s", phase="setup", command=sh("exit 3", accept=(0, 3)))))


def test_what_the_guest_does_not_have(world: World) -> None:
    needs = Needs(programs=("sh", "no-such-program"), modules=("no_such_module",), paths=("/no/such/path",))
    plan = world.plan(*world.whole(), faults={"fault": world.planned_fault(needs=needs)})
    events = perform(world, plan)
    missing = of(events, "needs")[0]["missing"]
    assert stop(events)["code"] == "unsupported"
    assert [word in text for word, text in zip(("program", "path", "module"), missing, strict=True)] == [True] * 3
    assert not of(events, "probe")


def test_warming_is_done_once_the_needs_are_met(world: World) -> None:
    fault = world.planned_fault(warm=(sh("echo warm"),))
    events = perform(world, world.plan(*world.whole()[:1], faults={"fault": fault}))
    assert of(events, "output")[0]["out"] == "warm\n"


def test_broken_before(world: World) -> None:
    world.sick.touch()
    dead = world.planned_fault()
    events = perform(world, world.plan(probe("before", number=">= 13"), APPLY, UNDO, faults={"fault": dead}))
    assert stop(events)["code"] == "broken_before"
    assert "number >= 13 (measured 12.0)" in stop(events)["text"]
    assert not of(events, "applied")


def test_nothing_measured_before(world: World) -> None:
    mute = PlannedProbe(kind="command", vantage="guest", spec={"run": ["true"], "number": "([0-9]+)", "timeout": 9.0})
    events = perform(world, world.plan(probe("before", "mute", number=">= 0"), APPLY, probes={"mute": mute}))
    assert stop(events)["code"] == "measured_nothing"
    assert not of(events, "applied")


def test_under_the_fault_a_broken_bound_ends_nothing(world: World) -> None:
    events = perform(world, world.plan(*world.whole(probe("under", number=">= 13"))))
    assert of(events, "probe", phase="under")[0]["holds"] is False
    assert not of(events, "stop")


def test_an_act_that_fails_half_way_is_undone(world: World) -> None:
    never = sh(f"echo never > {world.log}")
    acts = (sh(f"echo on > {world.fault}"), sh("echo cannot >&2; exit 2"), never)
    events = perform(world, world.plan(*world.whole(), faults={"fault": world.planned_fault(apply=acts)}))
    assert stop(events)["code"] == "apply_failed"
    assert "ended with exit code 2: cannot" in stop(events)["text"]
    (applied,) = of(events, "applied")
    assert (applied["ok"], len(applied["outputs"])) == (False, 2)
    assert was_undone(events, world)
    assert not world.log.read_text().startswith("never")


def test_an_undo_that_cannot_be_written_down_is_not_needed(world: World) -> None:
    for read, why in (((), "none of that name"), ((sh("echo x >&2; false", "who"),), "it failed: x")):
        events = perform(world, world.plan(APPLY, UNDO, faults={"fault": world.planned_fault(read=read)}))
        assert stop(events)["code"] == "apply_failed"
        assert why in stop(events)["text"]
        assert not world.fault.exists()
        assert not of(events, "receipt")


def test_a_receipt_that_cannot_be_saved_stops_the_act(world: World) -> None:
    world.receipts.write_text("in the way")
    events = perform(world, world.plan(APPLY, UNDO))
    assert stop(events)["code"] == "runner_error"
    assert not of(events, "applied")


def test_an_undo_that_fails_is_told_and_its_receipt_kept(world: World) -> None:
    undo = (sh("exit 1"), sh(f"rm {world.fault}"))
    events = perform(world, world.plan(*world.whole(), faults={"fault": world.planned_fault(undo=undo)}))
    (undone,) = of(events, "undone")
    assert (undone["ok"], [output["exit"] for output in undone["outputs"]]) == (False, [1, 0])
    assert (world.receipts / "fault.json").exists()
    assert of(events, "recovered")


# the worst moments: whatever happens after the act began, it is undone


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_under_the_fault(world: World, number: signal.Signals) -> None:
    runner = RealRunner(world, world.plan(*world.whole(rest())))
    runner.until("step", step="rest")
    runner.process.send_signal(number)
    events = runner.end()
    assert stop(events)["code"] == "interrupted"
    assert was_undone(events, world)


def test_a_host_that_is_gone(world: World) -> None:
    runner = RealRunner(world, world.plan(*world.whole(rest())))
    runner.until("step", step="rest")
    runner.hang_up()
    events = runner.end()
    assert stop(events)["code"] == "interrupted"
    assert was_undone(events, world)


def test_a_host_that_no_longer_reads(world: World) -> None:
    """Its end of the events is closed, its end of the lines is not."""
    ticks = [rest(0.1).model_copy(update={"id": f"tick{number}"}) for number in range(600)]
    plan = world.plan(*world.whole(*ticks, rest()))
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "stormcell.guest", "run-plan"],
        stdin=subprocess.PIPE,
        stdout=write,
        env={**os.environ, "STORMCELL_RECEIPTS": str(world.receipts)},
    ) as process:
        os.close(write)
        assert process.stdin
        process.stdin.write(json.dumps({"plan": plan.model_dump(mode="json"), "start": 0}).encode() + b"\n")
        process.stdin.flush()
        assert eventually(world.fault.exists)
        os.close(read)
        assert process.wait(60) == 1
    assert not world.fault.exists()


def test_the_deadline_of_the_plan(world: World) -> None:
    events = perform(world, world.plan(APPLY, rest(), UNDO, deadline_s=4.0))
    assert stop(events)["code"] == "deadline"
    assert was_undone(events, world)


def test_an_interruption_while_a_command_hangs(world: World) -> None:
    hung = PlannedProbe(
        kind="command",
        vantage="guest",
        spec={"run": ["sh", "-c", f"echo $$ > {world.folder}/pid; exec sleep 300"], "timeout": 300.0},
    )
    runner = RealRunner(world, world.plan(*world.whole(probe("under", "hung")), probes={"hung": hung}))
    runner.until("step", step="under.hung")
    pid = world.folder / "pid"
    assert eventually(lambda: pid.exists() and pid.read_text().endswith("\n"))
    runner.process.send_signal(signal.SIGTERM)
    events = runner.end()
    assert was_undone(events, world)
    assert not alive(pid.read_text().strip())


def test_an_interruption_while_requests_hang(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        spec = {"url": f"http://127.0.0.1:{server.getsockname()[1]}/", "rate": 10.0, "duration": 200.0, "timeout": 90.0}
        web = PlannedProbe(kind="http", vantage="guest", spec=spec)
        step = probe("under", "web", "http", success_rate="100%")
        runner = RealRunner(world, world.plan(*world.whole(step), probes={"web": web}))
        runner.until("step", step="under.web")
        time.sleep(0.5)
        runner.process.send_signal(signal.SIGTERM)
        assert was_undone(runner.end(), world)


def test_an_interruption_during_the_act_itself(world: World) -> None:
    act = sh(f"echo on > {world.fault}; sleep 300", timeout_s=300.0)
    runner = RealRunner(world, world.plan(*world.whole(), faults={"fault": world.planned_fault(apply=(act,))}))
    runner.until("receipt")
    assert eventually(world.fault.exists)
    runner.process.send_signal(signal.SIGTERM)
    events = runner.end()
    assert stop(events)["code"] == "interrupted"
    assert was_undone(events, world)


def test_an_interruption_during_the_undo_lets_it_finish(world: World) -> None:
    told = world.folder / "told"
    undo = sh(f"touch {world.log}; until test -e {told}; do sleep 0.05; done; rm {world.fault}")
    runner = RealRunner(world, world.plan(*world.whole(), faults={"fault": world.planned_fault(undo=(undo,))}))
    assert eventually(world.log.exists)
    runner.process.send_signal(signal.SIGTERM)
    told.touch()
    events = runner.end()
    assert of(events, "undone")[0]["ok"] is True
    assert stop(events)["code"] == "interrupted"
    assert not of(events, "recovered")


def test_a_plan_that_makes_the_runner_stumble(world: World) -> None:
    plan = world.plan(*world.whole(rest(1.0))).model_dump(mode="json")
    plan["steps"][3] = {"id": "odd", "phase": "under", "on": "guest", "do": "dance"}
    runner = RealRunner(world, None, first=json.dumps({"plan": plan, "start": 0}).encode() + b"\n")
    events = runner.end()
    assert stop(events)["code"] == "runner_error"
    assert was_undone(events, world)
    plan["steps"][3] = {"id": "odd", "phase": "under", "on": "guest", "do": "wait"}
    events = RealRunner(world, None, first=json.dumps({"plan": plan, "start": 0}).encode() + b"\n").end()
    assert "KeyError" in stop(events)["text"]
    assert was_undone(events, world)


@pytest.mark.parametrize("line", [b"", b"no json\n", b"[]\n", b"{}\n", b'{"plan": 7}\n', b'{"plan": {}}\n'])
def test_what_is_no_plan(world: World, line: bytes) -> None:
    runner = RealRunner(world, None, first=line)
    if not line:
        runner.hang_up()
    assert stop(runner.end())["code"] in ("runner_error", "interrupted")


def test_a_runner_that_was_killed_is_undone_from_its_receipt_alone(world: World) -> None:
    runner = RealRunner(world, world.plan(*world.whole(rest())))
    runner.until("step", step="rest")
    os.kill(runner.until("watchdog")["pid"], signal.SIGKILL)  # it would undo the fault itself
    runner.kill()
    assert world.fault.exists()

    def undo(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stormcell.guest", "undo", name],
            env={**os.environ, "STORMCELL_RECEIPTS": str(world.receipts)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = undo("fault")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True)
    assert not world.fault.exists()
    again = undo("fault")
    assert (again.returncode, "no receipt" in again.stderr) == (2, True)
    assert undo("../fault").returncode == 2


def test_a_later_runner_undoes_what_an_earlier_one_began(world: World) -> None:
    plan = world.plan(APPLY, UNDO, probe("recovery"))
    world.fault.touch()
    commands = [sh(f"rm {world.fault}").model_dump(mode="json")]
    events = perform(world, plan, start=1, undo_receipts={"fault": {"undo": commands}})
    assert of(events, "undone")[0]["ok"] is True
    assert not world.fault.exists()
    assert stop(perform(world, plan, start=1))["code"] == "runner_error"


# steps of the host


def test_a_step_of_the_host_is_awaited(world: World) -> None:
    step = probe("under").model_copy(update={"on": "host"})
    runner = RealRunner(world, world.plan(*world.whole(step)))
    runner.until("await", step="under.well")
    time.sleep(0.3)
    assert runner.events[-1]["event"] == "await"
    runner.say(go="under.well")
    events = runner.end()
    assert not of(events, "stop")
    assert not of(events, "probe", phase="under")


def test_a_host_that_says_the_wrong_thing(world: World) -> None:
    step = probe("under").model_copy(update={"on": "host"})
    for line, code in ((b'{"go": "before"}\n', "runner_error"), (b"what?\n", "runner_error")):
        runner = RealRunner(world, world.plan(*world.whole(step)))
        runner.until("await")
        runner.send(line)
        events = runner.end()
        assert stop(events)["code"] == code
        assert was_undone(events, world)


def test_a_host_that_asks_to_stop(world: World) -> None:
    runner = RealRunner(world, world.plan(*world.whole(rest())))
    runner.until("step", step="rest")
    runner.say(stop="broken_before", text="a probe of the host failed")
    events = runner.end()
    assert (stop(events)["code"], stop(events)["text"]) == ("broken_before", "a probe of the host failed")
    assert was_undone(events, world)
