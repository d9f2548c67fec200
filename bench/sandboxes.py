"""Restore against cold boot, commands, and the memory of many sandboxes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stormcell.guest.measure import quantile
from stormcell.machine.commands import start_command
from stormcell.machine.machine import Machine
from stormcell.machine.model import MachineSpec
from stormcell.sandbox.api import AsyncSandbox
from stormcell.sandbox.memory import private_bytes
from stormcell.template.model import Template

SANDBOXES = 10
COMMAND = ["/bin/true"]
LATER = 5


@dataclass
class _Seen:
    """Of one kind of beginning: seconds, and bytes that the machine's process shares with nobody."""

    begun: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    private: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)

    async def commands(self, run: Callable[[], Awaitable[Any]], pid: int) -> None:
        """What comes after the beginning."""
        self.private.append(private_bytes(pid))
        self.first.append(await _timed(run))
        self.used.append(private_bytes(pid))
        self.later += [await _timed(run) for _ in range(LATER)]


async def measure(template: Template, runs: int) -> dict[str, Any]:
    """Speed in seconds, ratios, and memory."""
    cold, restored = _Seen(), _Seen()
    for number in range(runs):
        # alternating, so that a noisy minute of the host falls on both
        await _cold_boot(template, cold)
        await _restore(template, restored)
        _progress(number + 1, runs)
    memory = await _memory(template)
    figures = {
        "restore to resumed": _quantiles(restored.begun),
        "cold boot to the agent's first answer": _quantiles(cold.begun),
        "first command after restore": _quantiles(restored.first),
        "first command after a cold boot": _quantiles(cold.first),
        "later commands": _quantiles(restored.later),
        "later commands after a cold boot": _quantiles(cold.later),
    }
    steps = {name: _quantiles(seconds) for name, seconds in restored.steps.items()}
    private = {
        "fresh": _mib(restored.private),
        "after its first command": _mib(restored.used),
        "cold boot": _mib(cold.private),
    }
    p50 = {name: figure["p50"] for name, figure in figures.items()}
    ratios = {
        "cold boot / restore (p50)": p50["cold boot to the agent's first answer"] / p50["restore to resumed"],
        "later commands / after a cold boot (p50)": p50["later commands"] / p50["later commands after a cold boot"],
        "cold boot / fresh sandbox (private pages)": private["cold boot"] / private["fresh"],
    }
    memory |= {"private_mib": private}
    _print(figures, steps, ratios, memory, template)
    return {"seconds": figures, "restore_steps": steps, "ratios": ratios, "memory": memory}


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _cold_boot(template: Template, seen: _Seen) -> None:
    """The template's own image from power-on until its agent answers; services are not waited for."""
    began = time.perf_counter()
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
            seen.begun.append(time.perf_counter() - began)

            async def run() -> None:
                command = await start_command(channel, COMMAND)
                async for _ in command.stdout:
                    pass
                await command.wait()

            await seen.commands(run, machine.identity.pid)
            await channel.close()


async def _restore(template: Template, seen: _Seen) -> None:
    began = last = time.perf_counter()

    def mark(step: str) -> None:
        nonlocal last
        now = time.perf_counter()
        seen.steps.setdefault(step, []).append(now - last)
        last = now

    sandbox = await AsyncSandbox.create(template, ttl_seconds=300, mark=mark)
    seen.begun.append(time.perf_counter() - began)
    try:
        await seen.commands(lambda: sandbox.exec(COMMAND), sandbox.machine.identity.pid)
    finally:
        await sandbox.kill()


async def _memory(template: Template) -> dict[str, Any]:
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


def _mib(values: list[float]) -> float:
    return (quantile(values, 50) or 0.0) / 2**20


def _print(
    figures: dict[str, Any], steps: dict[str, Any], ratios: dict[str, float], memory: dict[str, Any], template: Template
) -> None:
    print(f"\n{'':42} {'p50':>9} {'p99':>9}")
    for name, found in (figures | {f"  restore, {step}": found for step, found in steps.items()}).items():
        print(f"{name:42} {found['p50'] * 1000:6.1f} ms {found['p99'] * 1000:6.1f} ms")
    for name, ratio in ratios.items():
        print(f"{name:42} {ratio:8.2f}x")
    for name, mib in memory["private_mib"].items():
        print(f"{'private pages, ' + name:42} {mib:6.1f} MiB")
    print(
        f"{SANDBOXES} sandboxes of {template.shape.memory_mib} MiB together: {memory['pss_mib_together']:.0f} MiB PSS "
        f"({memory['pss_mib_each']:.0f} each)"
    )


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty() or done % 10 == 0:
        print(f"  {done}/{of}", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr)
