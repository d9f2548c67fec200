"""The throughput of a campaign: side by side, one at a time, and against cold-booting a machine for each run.

All three perform the same experiment: a delay on lo, a packet sent through it before, under and after it. The cold
machine boots the template's own disk; its services are not waited for, and its time counts from power-on.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stormcell.engine.api import conclude
from stormcell.engine.campaigns.api import CampaignOutcome, run_campaign_async
from stormcell.engine.compile import compile_plan
from stormcell.engine.conductor import Conductor
from stormcell.engine.folder import RunFolder
from stormcell.engine.load import Loaded, load_mapping
from stormcell.sandbox.api import AsyncSandbox
from stormcell.spec.verdict import Verdict
from stormcell.template.model import Template

RUNS = 48
COLD = 8
"""Cold runs are alike and slow: so many give the throughput."""
EXPERIMENT: dict[str, Any] = {
    "name": "short",
    "template": "base",
    "steady_state": [
        {"name": "echo", "command": {"run": ["ping", "-c", "1", "-W", "2", "127.0.0.1"]}, "expect": {"exit_code": 0}}
    ],
    "fault": {"kind": "net.delay", "device": "lo", "delay": "10ms"},
}


def measure(template: Template, runs: int = RUNS, cold: int = COLD) -> dict[str, Any]:
    """Runs per second of each way, and the ratios."""
    return asyncio.run(_measure(template, runs, cold))


async def _measure(template: Template, runs: int, cold: int) -> dict[str, Any]:
    loaded = load_mapping(EXPERIMENT)
    half = runs // 2
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as place:
        folder = Path(place)
        # the ways take turns, so that a noisy minute of the host falls on all
        cold_s = await _cold(template, loaded, cold // 2, folder)
        alone_s = await _campaign(half, 1, folder)
        beside_s = await _campaign(runs, None, folder)
        alone_s += await _campaign(runs - half, 1, folder)
        cold_s += await _cold(template, loaded, cold - cold // 2, folder)
    throughput = {"cold boot each": cold / cold_s, "one at a time": runs / alone_s, "side by side": runs / beside_s}
    ratios = {
        "side by side / cold boot each": throughput["side by side"] / throughput["cold boot each"],
        "side by side / one at a time": throughput["side by side"] / throughput["one at a time"],
    }
    print()
    for name, value in throughput.items():
        print(f"{name:40} {value:8.2f} runs/s ({1 / value:.2f} s each)")
    for name, value in ratios.items():
        print(f"{name:40} {value:8.1f}x")
    return {"runs": runs, "cold_runs": cold, "runs_per_second": throughput, "ratios": ratios}


async def _campaign(count: int, jobs: int | None, folder: Path) -> float:
    """Seconds for so many runs, from the beginning of the campaign to its result."""
    campaign = {"campaign": "bench", "experiment": EXPERIMENT, "repeats": count}
    began = time.perf_counter()
    outcome: CampaignOutcome = await run_campaign_async(campaign, jobs=jobs, folder=folder / "campaigns")
    took = time.perf_counter() - began
    if outcome.result.counts["survived"] != count:
        raise SystemExit(f"a run of the bench did not survive: {outcome.result.counts}")
    print(f"  {count} runs, {outcome.result.info['jobs']} at a time: {took:.1f} s", file=sys.stderr)
    return took


async def _cold(template: Template, loaded: Loaded, count: int, folder: Path) -> float:
    """Seconds for so many runs, each in a machine booted for it."""
    took = 0.0
    for number in range(count):
        plan = compile_plan(loaded.experiment, loaded.disturbances, template_digest=template.digest, seed=number)
        run = RunFolder.create(folder / "cold", plan.experiment)
        run.write_json("plan.json", plan.model_dump(mode="json"))
        conductor = _Cold(plan, template, run, lambda _: None)
        await conductor.perform()
        run.close()
        if conclude(run, loaded, plan, conductor.events).verdict is not Verdict.SURVIVED:
            raise SystemExit(f"a cold run of the bench did not survive: {run.path}")
        took += time.perf_counter() - conductor.powered_on
    print(f"  {count} runs, a cold boot each: {took:.1f} s", file=sys.stderr)
    return took


class _Cold(Conductor):
    """Performs its plan in a machine that was booted for it."""

    powered_on = 0.0

    async def _obtain(self) -> AsyncSandbox:
        """The sandbox is restored, cut off, and booted: the clock starts at the boot."""
        sandbox = await super()._obtain()
        await sandbox.power_cut()
        self.powered_on = time.perf_counter()
        await sandbox.cold_boot(timeout=120)
        return sandbox
