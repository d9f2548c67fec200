"""Restore against cold boot, commands, and the memory of many sandboxes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from stormcell.guest.measure import quantile
from stormcell.machine.machine import Machine
from stormcell.machine.model import MachineSpec
from stormcell.sandbox.api import AsyncSandbox
from stormcell.template.model import Template

SANDBOXES = 10


async def measure(template: Template, runs: int) -> dict[str, Any]:
    """Speed in seconds, ratios, and memory."""
    cold, restored, first, later = [], [], [], []
    for number in range(runs):
        # alternating, so that a noisy minute of the host falls on both
        cold.append(await _timed(lambda: _cold_boot(template)))
        seconds, one, more = await _restore(template)
        restored.append(seconds)
        first.append(one)
        later += more
        _progress(number + 1, runs)
    memory = await _memory(template)
    figures = {
        "restore to resumed": _quantiles(restored),
        "cold boot to the agent's first answer": _quantiles(cold),
        "first command after restore": _quantiles(first),
        "later commands": _quantiles(later),
    }
    ratios = {
        "cold boot / restore (p50)": figures["cold boot to the agent's first answer"]["p50"]
        / figures["restore to resumed"]["p50"]
    }
    _print(figures, ratios, memory, template)
    return {"seconds": figures, "ratios": ratios, "memory": memory}


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _cold_boot(template: Template) -> None:
    """The template's own image from power-on until its agent answers; services are not waited for."""
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as folder:
        place = Path(folder)
        (place / "disk.qcow2").write_bytes(template.overlay.read_bytes())
        spec = MachineSpec(
            "bench",
            template.shape,
            template.kernel,
            template.initrd,
            place / "disk.qcow2",
            place / "memory",
            share=True,
        )
        async with await Machine.start(spec, place) as machine:
            channel = await machine.channel(timeout=120)
            await channel.hello()
            await channel.close()


async def _restore(template: Template) -> tuple[float, float, list[float]]:
    began = time.perf_counter()
    sandbox = await AsyncSandbox.create(template, ttl_seconds=300)
    took = time.perf_counter() - began
    try:
        trips = [await _timed(lambda: sandbox.exec(["/bin/true"])) for _ in range(6)]
    finally:
        await sandbox.kill()
    return took, trips[0], trips[1:]


async def _memory(template: Template) -> dict[str, float]:
    """Proportional set size: shared pages are divided among those that share them."""
    sandboxes = [await AsyncSandbox.create(template, ttl_seconds=300) for _ in range(SANDBOXES)]
    try:
        await asyncio.sleep(2)
        total = sum(sandbox.memory_pss() for sandbox in sandboxes)
    finally:
        for sandbox in sandboxes:
            await sandbox.kill()
    return {
        "sandboxes": SANDBOXES,
        "guest_mib": template.shape.memory_mib,
        "pss_mib_together": total / 2**20,
        "pss_mib_each": total / 2**20 / SANDBOXES,
    }


def _quantiles(values: list[float]) -> dict[str, float]:
    return {f"p{q}": quantile(values, q) or 0.0 for q in (50, 99)} | {"n": len(values)}


def _print(figures: dict[str, Any], ratios: dict[str, float], memory: dict[str, float], template: Template) -> None:
    print(f"\n{'':40} {'p50':>9} {'p99':>9}")
    for name, found in figures.items():
        print(f"{name:40} {found['p50'] * 1000:6.0f} ms {found['p99'] * 1000:6.0f} ms")
    for name, ratio in ratios.items():
        print(f"{name:40} {ratio:8.1f}x")
    print(
        f"{SANDBOXES} sandboxes of {template.shape.memory_mib} MiB together: {memory['pss_mib_together']:.0f} MiB PSS "
        f"({memory['pss_mib_each']:.0f} each)"
    )


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty() or done % 10 == 0:
        print(f"  {done}/{of}", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr)
