"""Faults that the host carries out, through whole runs; and runs that end in the midst of one."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from stormcell.engine.api import run_async
from stormcell.judge.events import read_events
from tests.guest.engine.conftest import PROBE, codes
from tests.guest.engine.test_vantage import OUTSIDE
from tests.guest.engine.test_verdicts import SERVER


def test_without_its_cable_nobody_outside_reaches_it_and_it_comes_back(outcome_of):
    # one that a busy host delays is not all of them
    expect = {"success_rate": ">= 50%"}
    web = {**OUTSIDE, "http": {"url": "http://web/hostname", "count": 4, "timeout": "1s"}, "expect": expect}
    outcome = outcome_of(
        {"kind": "machine.link"}, web, setup=[SERVER], open_ports={"web": 8000}, recovery={"within": "30s"}
    )
    assert outcome.verdict == "failed", outcome.result.reasons
    assert codes(outcome) == ["out_of_bounds"]
    before, under, after = (probe.metrics["success_rate"] for probe in outcome.result.probes)
    assert before >= 0.5 and under == 0 and after >= 0.5


def test_a_pause_meets_the_probes_of_the_guest(outcome_of):
    """The runner goes on before the machine stops: a probe is under way, and sees one long answer."""
    expect = {"expect": {"seconds": "<= 60s"}, "under_fault": {"seconds": "<= 5s"}}
    slow = {"name": "alive", "command": {"run": "sleep 3"}, **expect}
    fault = {"kind": "machine.pause", "for": "5s", "clock": "runs", "delay": "1500ms"}
    outcome = outcome_of(fault, slow)
    assert outcome.verdict == "failed", outcome.result.reasons
    _, under, _ = (probe.metrics["seconds"] for probe in outcome.result.probes)
    assert under is not None
    assert under >= 5


@pytest.mark.parametrize(
    ("fault", "still"),
    [
        ({"kind": "machine.pause", "for": "20s", "delay": "0s"}, "receipt"),
        ({"kind": "machine.pause", "for": "20s", "delay": "0s", "clock": "runs"}, "receipt"),
        ({"kind": "machine.slow", "speed": "20%"}, "applied"),
        ({"kind": "machine.link"}, "applied"),
    ],
)
def test_an_interrupted_run_leaves_nothing(template, tmp_path, fault, still):
    """Ctrl-C while the act is under way: it is ended, and the machine and its files are gone."""
    experiment = {"name": "test", "steady_state": [PROBE], "fault": fault, "hold": "60s"}

    async def cut_short() -> float:
        reached = asyncio.Event()

        def watch(event: Mapping[str, Any]) -> None:
            if event["event"] == still:
                reached.set()

        task = asyncio.create_task(run_async(experiment, template=template, runs=tmp_path, on_event=watch))
        await asyncio.wait_for(reached.wait(), 200)
        await asyncio.sleep(0.5)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(cut_short()) < 18
    (folder,) = tmp_path.iterdir()
    events = {event["event"]: event for event in read_events(folder / "events.jsonl")}
    assert events["lost"]["code"] == "interrupted"
    evidence = events["released"]["evidence"]
    assert evidence["files"]["gone"]
    assert [process["gone"] for process in evidence["processes"]] == [True], evidence
