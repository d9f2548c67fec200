"""Reports about what stands around the fault: gates, failed commands, undos, killed injectors, schedules.

`naive` does what the report did, through the product, which must not call it a success; `ours` is how it is meant.
"""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_mapping
from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.spec.errors import SpecError
from tests.guest.engine.conftest import PROBE, codes

BOTH = pytest.mark.parametrize("way", ["naive", "ours"])
PING: dict[str, Any] = {
    "name": "ping",
    "command": {"run": "ping -c 2 -i 0.2 -W 2 127.0.0.1"},
    "expect": {"exit_code": 0},
}
DELAY: dict[str, Any] = {"kind": "net.delay", "device": "lo", "delay": "100ms"}
NETEM: dict[str, Any] = {
    "kind": "custom.commands",
    "apply": "tc qdisc add dev lo root handle 1: netem delay 100ms",
    "undo": "tc qdisc del dev lo root",
    "shows": "tc qdisc show dev lo | grep -q 'delay 100ms'",
    "counter": "tc -s qdisc show dev lo | awk '$1 == \"Sent\" {print $4; exit}'",
}
SHOW = "tc qdisc show"


def verdict_of(outcome: Any) -> tuple[str, str]:
    return str(outcome.verdict), codes(outcome)[0]


class Injection:
    """A run of ours in a sandbox of its own, which a test may disturb."""

    def __init__(self, template: Any) -> None:
        self._runner = asyncio.Runner()
        self.sandbox = self._runner.run(AsyncSandbox.create(template, ttl_seconds=300))
        self._command: Any = None

    def begin(self, fault: dict[str, Any], **more: Any) -> int:
        """Start the runner; its pid once the fault is in force."""
        experiment = {"name": "x", "steady_state": [PROBE], "fault": fault, "hold": "120s", **more}
        loaded = load_mapping(experiment)
        plan = compile_plan(loaded.experiment, loaded.disturbances)
        return self._runner.run(self._begin(json.dumps({"plan": plan.model_dump(mode="json"), "start": 0})))

    async def _begin(self, request: str) -> int:
        self._command = await self.sandbox.start(["stormcell-guest", "run-plan"], stdin=True, timeout=200)
        await self._command.write_stdin(request.encode() + b"\n")
        pid, pending = 0, b""
        async for chunk in self._command.stdout():
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                pid = event["pid"] if event["event"] == "begin" else pid
                if event["event"] == "applied":
                    return int(pid)
        raise AssertionError("the fault was never applied")

    def run(self, text: str) -> str:
        return self._runner.run(self.sandbox.exec(text, timeout=30)).text

    def until(self, text: str, seconds: float = 30) -> bool:
        """Until the shell text succeeds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(f"{text} && echo yes").strip().endswith("yes"):
                return True
            time.sleep(0.2)
        return False

    def close(self) -> None:
        self._runner.run(self.sandbox.kill())
        self._runner.close()


@pytest.fixture
def injection(template: Any) -> Iterator[Injection]:
    made = Injection(template)
    yield made
    made.close()


@BOTH
def test_38_an_injector_killed_with_9_leaves_the_fault(way: str, outcome_of: Any, injection: Injection) -> None:
    """https://github.com/litmuschaos/litmus/issues/2359"""
    if way == "naive":
        once = f"until {SHOW} | grep -q netem; do sleep 0.1; done"
        inject = "(tc qdisc add dev eth0 root handle 9: netem delay 1ms; exec sleep 30) & sleep 1; kill -9 $!; wait"
        run = f"{once}; {inject}"
        outcome = outcome_of(DELAY, PING, load=[{"name": "injector", "run": run}], hold="4s")
        assert verdict_of(outcome) == ("failed", "left_behind")
        assert "eth0 root 9:" in " ".join(reason.text for reason in outcome.result.reasons)
    else:
        pid = injection.begin(DELAY)
        assert "netem" in injection.run(SHOW)
        injection.run(f"kill -9 {pid}")
        assert injection.until(f"! {SHOW} | grep netem")
        (done,) = json.loads(injection.run("stormcell-guest watchdog"))["recovered"]
        assert (done["recovered_by"], done["ok"]) == ("runner_died", True)


@BOTH
def test_39_no_ttl_locks_everybody_out(way: str, outcome_of: Any, injection: Injection) -> None:
    """https://github.com/chaos-mesh/chaosd/issues/103"""
    if way == "naive":  # the undo goes through what the fault has broken
        undo = "ping -c 1 -W 1 10.0.2.2 && tc qdisc del dev eth0 root"
        apply = "tc qdisc add dev eth0 root handle 1: netem loss 100%"
        shows = "tc qdisc show dev eth0 | grep -q 'loss 100%'"
        counter = "tc -s qdisc show dev eth0 | grep -o 'dropped [0-9]*' | cut -c9- | head -1"
        fault = {**NETEM, "apply": apply, "undo": undo, "shows": shows, "counter": counter}
        probe = {**PROBE, "command": {"run": "ping -c 1 -W 1 10.0.2.2; true"}}
        assert verdict_of(outcome_of(fault, probe)) == ("failed", "not_recovered")
    else:
        loss = {"kind": "net.loss", "device": ["eth0", "lo"], "loss": "100%"}
        pid = injection.begin(loss, hold="12s", ttl="15s")
        injection.run(f"kill -STOP {pid}")  # it will not undo anything
        assert not injection.until("ping -c 1 -W 1 127.0.0.1 >/dev/null", 0.1)
        assert injection.until("ping -c 1 -W 1 127.0.0.1 >/dev/null && ping -c 1 -W 1 10.0.2.2 >/dev/null")
        (done,) = json.loads(injection.run("stormcell-guest watchdog"))["recovered"]
        assert (done["recovered_by"], done["ok"]) == ("ttl", True)


@pytest.mark.parametrize("way", ["naive", "INT", "TERM", "USR1", "KILL"])
def test_40_a_stop_leaves_the_fault_in_place(way: str, outcome_of: Any, injection: Injection) -> None:
    """https://github.com/chaostoolkit/chaostoolkit/issues/195"""
    if way == "naive":  # an action that is stopped half-way, with a rollback that then does not run
        fault = {**NETEM, "apply": f"{NETEM['apply']}; kill -INT $$; sleep 5"}
        outcome = outcome_of(fault, PING)
        assert verdict_of(outcome) == ("void", "apply_failed")
        assert outcome.result.faults[0].clean
    else:
        pid = injection.begin(DELAY)
        injection.run(f"kill -{signal.Signals[f'SIG{way}'].value} {pid}")
        assert injection.until(f"! {SHOW} | grep netem")


@BOTH
def test_41_the_rollback_failed_and_the_experiment_completed(way: str, outcome_of: Any) -> None:
    """https://github.com/chaostoolkit/chaostoolkit-lib/issues/94"""
    outcome = outcome_of({**NETEM, "undo": "false"} if way == "naive" else NETEM, PING)
    assert verdict_of(outcome) == (("failed", "not_recovered") if way == "naive" else ("survived", "survived"))


@BOTH
def test_44_rules_of_an_earlier_run_are_applied_again(way: str, outcome_of: Any) -> None:
    """https://github.com/chaos-mesh/chaosd/issues/207"""
    stale = [{"run": NETEM["apply"]}]
    if way == "naive":
        fault = {**NETEM, "apply": "tc qdisc replace dev lo root handle 1: netem delay 100ms"}
        assert verdict_of(outcome_of(fault, PING, setup=stale)) == ("void", "not_in_force")
    else:
        leaver = outcome_of({**NETEM, "undo": "true"}, PING)
        assert verdict_of(leaver)[0] == "failed"
        clean = {"name": "clean", "command": {"run": f"! {SHOW} | grep -q 'delay 100ms'"}, "expect": {"exit_code": 0}}
        outcome = outcome_of({**DELAY, "delay": "50ms"}, PING, clean)
        assert verdict_of(outcome) == ("survived", "survived")  # every run starts from the same snapshot


@BOTH
def test_58_schedules_overlap_skip_or_run_twice(way: str, outcome_of: Any) -> None:
    """https://github.com/chaos-mesh/chaos-mesh/issues/2606"""
    if way == "naive":  # every 2 s for 3 s
        with pytest.raises(SpecError, match="do not fit"):
            outcome_of({**DELAY, "schedule": {"random": {"within": "20s", "lasts": "3s", "times": 10}}}, PING)
        return
    schedule = {"random": {"within": "6s", "lasts": "400ms", "times": 4}}
    outcome = outcome_of({**DELAY, "schedule": schedule}, {**PING, "command": {"run": "ping -c 33 -i 0.2 127.0.0.1"}})
    lines = (outcome.folder / "events.jsonl").read_text().splitlines()
    turns = [event for event in map(json.loads, lines) if event["event"] == "moment"]
    assert [turn["do"] for turn in turns] == ["apply", "undo"] * 4  # never two at once, none skipped
    assert [turn["number"] for turn in turns] == list(range(8))  # and none twice
    assert outcome.result.faults[0].in_force


@BOTH
def test_61_toxicity_0_still_acts(way: str, outcome_of: Any) -> None:
    """https://github.com/Shopify/toxiproxy/issues/603"""
    many = {**PING, "command": {"run": "ping -c 200 -i 0.002 -W 1 127.0.0.1 | grep -o ' [0-9]* received'"}}
    if way == "naive":
        loss = {"shows": "tc qdisc show dev lo | grep -q netem", "apply": "tc qdisc add dev lo root netem loss 0%",
                "counter": "tc -s qdisc show dev lo | grep -o 'dropped [0-9]*' | cut -c9- | head -1"}  # fmt: skip
        assert verdict_of(outcome_of({**NETEM, **loss}, many)) == ("void", "never_acted")
        with pytest.raises(SpecError, match="loss"):
            outcome_of({"kind": "net.loss", "device": "lo", "loss": "0%"}, many)
    else:
        probe = {**many, "under_fault": {"exit_code": ">= 0"}, "expect": {"exit_code": 0}}
        outcome = outcome_of({"kind": "net.loss", "device": "lo", "loss": "100%"}, probe)
        assert outcome.verdict == "survived", outcome.result.reasons
        assert outcome.result.faults[0].acted == 200


@BOTH
def test_64_a_gate_that_failed_is_green(way: str, outcome_of: Any) -> None:
    """https://github.com/chaostoolkit/chaostoolkit/issues/168"""
    if way == "naive":
        outcome = outcome_of(NETEM, {**PROBE, "command": {"run": "false"}})
        assert verdict_of(outcome) == ("void", "broken_before")
        assert not [f for f in outcome.result.faults if f.in_force is not None]  # nothing was begun, nothing undone
    else:
        assert verdict_of(outcome_of(NETEM, PING)) == ("survived", "survived")


@BOTH
def test_65_a_fault_that_failed_counts_as_success(way: str, outcome_of: Any) -> None:
    """https://github.com/chaostoolkit/chaostoolkit-lib/issues/94"""
    if way == "naive":
        assert verdict_of(outcome_of({**NETEM, "apply": "false"}, PING)) == ("void", "apply_failed")
        with pytest.raises(SpecError, match="group"):
            outcome_of(NETEM, {**PROBE, "command": {"run": "true", "number": "[0-9]+"}})
    else:
        assert verdict_of(outcome_of(NETEM, PING)) == ("survived", "survived")
