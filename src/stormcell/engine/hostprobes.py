"""Probes that look from the host, through a forwarded port. The same code measures as in the guest."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

from stormcell.guest import measure, moment, probes, recovery
from stormcell.guest.probes.waiting import BreakableWait
from stormcell.spec.plan import MomentStep, Plan, ProbeStep, RecoverStep


async def measure_once(plan: Plan, step: ProbeStep, ports: Mapping[str, int], seed: int) -> dict[str, Any]:
    """The fields of a `probe` event."""
    planned = plan.probes[step.probe]
    bounds = [bound.model_dump() for bound in step.bounds]
    began = time.monotonic()
    spec, taken = await measure_spec(planned.kind, planned.spec, ports, f"{seed}/{step.id}")
    fields = measure.report(planned.kind, spec, step.phase, bounds, taken.samples, taken.detail)
    return {"probe": step.probe, "vantage": "host", "took_s": round(time.monotonic() - began, 6), **fields}


async def measure_spec(
    kind: str, spec: Mapping[str, Any], ports: Mapping[str, int], seed: str
) -> tuple[dict[str, Any], probes.Taken]:
    """One measurement through the open port: the spec with its address there, and the samples."""
    there = through_port(spec, ports)
    wait = BreakableWait()
    return there, await _in_thread(wait, lambda: probes.take(kind, there, seed=seed, wait=wait))


async def until_it_holds(
    plan: Plan, step: RecoverStep, ports: Mapping[str, int], seed: int, undone_at: float
) -> dict[str, Any]:
    """The fields of a `recovered` event; `undone_at` is the host's monotonic time of the undo."""
    planned = plan.probes[step.probe]
    spec = through_port(planned.spec, ports)
    bounds = [bound.model_dump() for bound in step.bounds]
    wait = BreakableWait()
    fields = await _in_thread(
        wait,
        lambda: recovery.until_holds(
            planned.kind,
            spec,
            bounds,
            within=step.within_s,
            every=step.every_s,
            elapsed=lambda: time.monotonic() - undone_at,
            take=lambda changed, promising: probes.take(
                planned.kind, changed, seed=f"{seed}/{step.id}", wait=wait, promising=promising
            ),
            sleep=lambda seconds: _sleep(wait, seconds),
        ),
    )
    return {"probe": step.probe, "vantage": "host", **fields}


async def until_moment(
    plan: Plan, step: MomentStep, ports: Mapping[str, int], seed: int
) -> tuple[bool, dict[str, Any]]:
    """Whether the moment came, and the fields of a `moment` event, or the text of a stop."""
    planned, began, looks = plan.probes[step.probe or ""], time.monotonic(), 0
    data = step.model_dump(mode="json")
    while True:
        looks += 1
        spec, taken = await measure_spec(planned.kind, step.spec, ports, f"{seed}/{step.id}/{looks}")
        came, said = moment.judged({**data, "spec": spec}, planned.kind, taken)
        seconds = time.monotonic() - began
        if came:
            return True, {"looks": looks, "seconds": round(seconds, 6), "text": said}
        if seconds + step.every_s > step.within_s:
            return False, {"text": moment.absent(data, said)}
        await asyncio.sleep(step.every_s)


def through_port(spec: Mapping[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    """The probe's address with the open port's name replaced by where it is on this host."""
    if "url" in spec:
        name, slash, path = str(spec["url"]).removeprefix("http://").partition("/")
        return {**spec, "url": f"http://127.0.0.1:{ports[name]}{slash}{path}"}
    name = str(spec["address"]).rpartition(":")[0]
    return {**spec, "address": f"127.0.0.1:{ports[name]}"}


async def _in_thread(wait: BreakableWait, work: Any) -> Any:
    """Run `work` beside the event loop; a cancelled run breaks the measurement off and waits for its end."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        wait.break_off()
        await asyncio.wait({task}, timeout=10)
        if task.done() and not task.cancelled():
            task.exception()  # heard: the measurement was broken off on purpose
        raise
    finally:
        if task.done():
            wait.close()


def _sleep(wait: BreakableWait, seconds: float) -> None:
    """Sleep, and hear when the measurement is broken off: a descriptor that never gets readable is waited for."""
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        wait(read, seconds)
    finally:
        os.close(read)
        os.close(write)
