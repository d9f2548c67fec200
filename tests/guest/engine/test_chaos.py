"""Faults around lines of a program, in one machine that outlives them."""

import asyncio
import json
import time

import pytest

from stormcell import AsyncSandbox, Sandbox, chaos
from stormcell.engine.api import judge_folder
from stormcell.judge.events import read_events
from stormcell.report.load import load_run
from stormcell.spec.errors import NotSurvived, SpecError

LATE = {"kind": "net.delay", "device": "lo", "delay": "60ms"}
PING = "ping -c 2 -i 0.2 -W 2 127.0.0.1"


@pytest.fixture(scope="module")
def machine(own_home, template):
    with Sandbox.create(template, ttl_seconds=240) as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def _nothing_left(machine):
    yield
    said = json.loads(machine.exec(["stormcell-guest", "watchdog"]).stdout)
    assert said["receipts"] == []
    assert "netem" not in machine.exec("tc qdisc show").text


def codes(block) -> list[str]:
    return [reason.code for reason in block.result.reasons]


def test_it_is_in_force_while_the_lines_run_and_proven(machine):
    with chaos(machine, "net.delay", device="lo", delay="60ms") as block:
        assert block.verdict is None
        assert "delay 60ms" in machine.exec("tc qdisc show").text
        machine.exec(PING, check=True)
    assert block.verdict == "survived"
    assert judge_folder(block.folder).reasons[0].text.startswith("every bound held under the fault (lines)")
    receipt = block.receipts["fault"]
    assert receipt.in_force
    assert receipt.clean
    assert receipt.acted == 4
    assert judge_folder(block.folder) == block.result
    page = load_run(block.folder)
    assert page.verdict == "survived"
    assert "test_chaos.py" in page.question


def test_a_fault_that_touched_nothing_proves_nothing(machine):
    with pytest.raises(NotSurvived, match=r"net\.delay is void: .* touched nothing") as caught, chaos(machine, LATE):
        pass
    assert caught.value.result.verdict == "void"
    assert str(caught.value.folder) in str(caught.value)
    with chaos(machine, LATE, check=False) as block:
        pass
    assert codes(block) == ["never_acted"]


def test_an_exception_of_the_lines_goes_on_with_a_note(machine):
    with pytest.raises(ZeroDivisionError) as caught, chaos(machine, LATE) as block:
        machine.exec(PING, check=True)
        raise ZeroDivisionError
    assert block.verdict == "failed"
    assert codes(block) == ["out_of_bounds"]
    (note,) = caught.value.__notes__
    assert "net.delay (4 packets" in note
    assert str(block.folder) in note
    probe = next(e for e in read_events(block.folder / "events.jsonl") if e["event"] == "probe")
    assert probe["samples"][0][3]["err"].startswith("ZeroDivisionError")


def test_lines_that_took_too_long_fail(machine):
    with pytest.raises(NotSurvived, match=r"seconds .* wanted <= 50ms"), chaos(machine, LATE, within="50ms"):
        machine.exec(PING, check=True)


def test_several_and_nested(machine):
    both = {"late": LATE, "wrong-time": {"kind": "clock.jump", "by": "-1h"}}
    with chaos(machine, both) as outer:
        with (
            pytest.raises(SpecError, match="cannot be together"),
            chaos(machine, "net.delay", device="lo", delay="5ms"),
        ):
            pass
        with chaos(machine, "memory.drop-caches") as inner:
            machine.exec(PING, check=True)
        assert abs(time.time() - 3600 - float(machine.exec("date +%s").text)) < 60
    assert (outer.verdict, inner.verdict) == ("survived", "survived")
    assert set(outer.receipts) == {"late", "wrong-time"}


def test_a_schedule_goes_to_its_end(machine):
    pulse = {**LATE, "schedule": {"pulse": {"on": "600ms", "off": "300ms", "times": 2}}}
    with machine.start("exec ping -i 0.1 127.0.0.1") as pings:  # before the first turn, until after the last
        assert next(pings.stdout())
        with chaos(machine, pulse) as block:
            pass
    assert block.verdict == "survived"
    assert block.receipts["fault"].cycles == 2


def test_the_machine_itself(machine):
    with chaos(machine, "machine.link") as block:
        assert machine.exec("cat /sys/class/net/eth0/carrier").text == "0\n"
    assert block.verdict == "survived"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"kind": "machine.crash", "mode": "panic"}, "it ends the machine"),
        ({"kind": "net.delya"}, r"test_chaos\.py:[0-9]+.*net\.delay"),
        ({"kind": "process.kill", "service": "nginx"}, "has no service 'nginx'"),
        ({**LATE, "schedule": {"lasts": "20m"}}, "deadline"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(machine, own_home, fault, why):
    before = sorted(own_home.runs.iterdir())
    with pytest.raises(SpecError, match=why), chaos(machine, fault):
        pytest.fail("the lines ran")
    assert sorted(own_home.runs.iterdir()) == before


def test_a_fault_that_cannot_be_put_in_force_keeps_the_lines_from_running(machine):
    with pytest.raises(NotSurvived, match="void") as caught, chaos(machine, "net.delay", device="eth7", delay="5ms"):
        pytest.fail("the lines ran")
    assert caught.value.result.reasons[0].code in ("apply_failed", "unsupported")


def test_at_the_deadline_it_is_undone_and_the_outcome_unknown(machine):
    with chaos(machine, LATE, deadline="8s", check=False) as block:
        end = time.monotonic() + 60
        while "netem" in machine.exec("tc qdisc show").text:
            assert time.monotonic() < end
            time.sleep(0.5)
    assert block.verdict == "unknown"
    assert "deadline" in codes(block)


def test_a_runner_that_dies_is_no_verdict_and_what_it_did_is_undone(machine):
    with chaos(machine, LATE, check=False) as block:
        runner = next(e["pid"] for e in read_events(block.folder / "events.jsonl") if e["event"] == "begin")
        machine.exec(f"kill -9 {runner}", check=True)
        machine.exec(PING, check=True)
    assert block.verdict == "unknown"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_finding(machine, error):
    with pytest.raises(error), chaos(machine, LATE) as block:
        raise error
    assert block.verdict == "unknown"
    assert codes(block)[0] == "interrupted"


def test_coroutines(machine):
    async def lines() -> str:
        sandbox = await AsyncSandbox.attach(machine.id)
        try:
            async with chaos(sandbox, LATE) as block:
                await sandbox.exec(PING, check=True)
            assert block.verdict == "survived"
            under = asyncio.Event()
            task = asyncio.create_task(held(sandbox, under))
            await under.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        finally:
            await sandbox.close()
        return str(block.verdict)

    async def held(sandbox: AsyncSandbox, under: asyncio.Event) -> None:
        async with chaos(sandbox, LATE):
            under.set()
            await asyncio.sleep(60)

    assert asyncio.run(lines()) == "survived"
    with pytest.raises(SpecError, match="async with"), chaos(AsyncSandbox.__new__(AsyncSandbox), LATE):
        pass
