"""Abort conditions on probes that look from the host: measured beside the run until one is met."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from stormcell.engine.crash import Log
from stormcell.engine.hostprobes import measure_spec
from stormcell.guest import measure
from stormcell.spec.plan import Plan, PlannedAbort


async def watch(plan: Plan, ports: Mapping[str, int], log: Log) -> str:
    """Returns once a condition is met, with a sentence about it; writes the `abort` event before."""
    async with asyncio.TaskGroup() as group:
        mine = [abort for abort in plan.aborts if abort.on == "host"]
        tasks = {group.create_task(_until_met(plan, abort, ports, log)) for abort in mine}
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return done.pop().result()


async def _until_met(plan: Plan, abort: PlannedAbort, ports: Mapping[str, int], log: Log) -> str:
    kind, looks = plan.probes[abort.probe or ""].kind, 0
    bounds: list[dict[str, Any]] = [bound.model_dump() for bound in abort.bounds]
    while True:
        looks += 1
        spec, taken = await measure_spec(kind, abort.spec, ports, f"{plan.seed}/abort/{abort.name}/{looks}")
        met, said = measure.met(measure.metrics(kind, spec, taken.samples), bounds)
        if met:
            text = f"{abort.name}, from the host: {said} (n = {len(taken.samples)})"
            log("abort", condition=abort.name, checks=met, text=text)
            return text
        await asyncio.sleep(abort.every_s)
