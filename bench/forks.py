"""Pools and forks: a create from what waits, children of one instant, chains of them, and their memory."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any

from bench.sandboxes import _cold_boot, _quantiles, _Seen
from stormcell.machine.pages import private_runs, region
from stormcell.sandbox.api import AsyncPool, AsyncSandbox
from stormcell.sandbox.memory import private_bytes
from stormcell.template.model import Template

MANY = 8
IDLE = 30
DEEP = 10
CHAINS = 3
COLD = 5
"""Cold boots: they take seconds each, and are compared with things that take milliseconds."""
OWN = 30 << 20
"""Bytes of its own that the forked sandbox has."""
MIB = 1 << 20


async def measure(template: Template, runs: int) -> dict[str, Any]:
    """Seconds, ratios within this run, and memory."""
    seconds: dict[str, list[float]] = {}
    parent = await _forks(template, runs, seconds)
    await _creates(template, runs, seconds)
    chains = [await _chain(template) for _ in range(min(runs, CHAINS))]
    memory = await _memory(template) | parent
    figures: dict[str, Any] = {name: _quantiles(taken) for name, taken in seconds.items()}
    for depth in (1, DEEP):
        figures[f"fork: child at depth {depth}"] = _quantiles([chain[depth - 1] for chain in chains])
    p50 = {name: found["p50"] for name, found in figures.items()}
    ratios = {
        "cold boot / create from the warm pool": p50["cold boot"] / p50["create from the warm pool"],
        "restore / create from the warm pool": p50["restore to resumed"] / p50["create from the warm pool"],
        "cold boot / fork": p50["cold boot"] / p50["fork: one child, a process waiting"],
        "restore / fork": p50["restore to resumed"] / p50["fork: one child, a process waiting"],
        f"depth {DEEP} / depth 1": p50[f"fork: child at depth {DEEP}"] / p50["fork: child at depth 1"],
    }
    _print(figures, ratios, memory)
    return {"seconds": figures, "ratios": ratios, "memory": memory}


async def _creates(template: Template, runs: int, seconds: dict[str, list[float]]) -> None:
    """Alternating, so that a noisy minute of the host falls on all."""
    async with AsyncPool(template, size=2) as pool:
        for number in range(runs):
            await pool.filled()
            waiting = pool.waiting[0]
            began = time.perf_counter()
            sandbox = await pool.create()
            if waiting:
                _note(seconds, "create from the warm pool", time.perf_counter() - began)
            began = time.perf_counter()
            await sandbox.exec(["/bin/true"])
            _note(seconds, "first command of one from the pool", time.perf_counter() - began)
            await sandbox.kill()
            await pool.filled()
            began = time.perf_counter()
            sandbox = await AsyncSandbox.create(template)
            _note(seconds, "restore to resumed", time.perf_counter() - began)
            await sandbox.kill()
            if number < COLD:
                seen = _Seen()
                await _cold_boot(template, seen)
                _note(seconds, "cold boot", seen.begun[0])
            _progress("creates", number + 1, runs)


async def _forks(template: Template, runs: int, seconds: dict[str, list[float]]) -> dict[str, float]:
    """How long each fork takes; returns what the parent had of its own, and one of its children."""
    async with await AsyncSandbox.create(template, ttl_seconds=3600) as parent:
        own = await _grown(parent, template)
        async with AsyncPool(template, size=0, processes=MANY) as pool:
            for number in range(runs):
                await pool.filled()
                await _fork(parent, 1, "a process waiting", seconds)
                if number % 3 == 0:
                    await pool.filled()
                    await _fork(parent, MANY, "processes waiting", seconds)
                _progress("forks with processes that wait", number + 1, runs)
        for number in range(runs):
            await _fork(parent, 1, "none waiting", seconds)
            if number % 3 == 0:
                await _fork(parent, MANY, "none waiting", seconds)
            _progress("forks without", number + 1, runs)
        async with await parent.fork() as child:
            private = private_bytes(child.machine.identity.pid)
        return {"own_pages_of_the_parent_mib": own / MIB, "private_mib_of_its_child_with_qemu": private / MIB}


async def _fork(parent: AsyncSandbox, count: int, how: str, seconds: dict[str, list[float]]) -> None:
    began = time.perf_counter()
    children = await parent.fork(count)
    took = time.perf_counter() - began
    _note(seconds, f"fork: {'one child' if count == 1 else f'{count} children'}, {how}", took)
    _note(seconds, "fork: parent paused", _paused(parent.machine_events()))
    for child in children:
        await child.kill()


def _paused(events: list[dict[str, Any]]) -> float:
    """From the last stop to when it went on, as QEMU says itself."""
    stamps: Mapping[str, Any] = {event["event"]: event["timestamp"] for event in events}
    at = {name: stamps[name]["seconds"] + stamps[name]["microseconds"] / 1e6 for name in ("STOP", "RESUME")}
    return float(at["RESUME"] - at["STOP"])


async def _grown(sandbox: AsyncSandbox, template: Template) -> int:
    """Write until it has OWN bytes that are not the template's; how many there are."""
    while (missing := OWN - _own(sandbox, template)) > 0:
        size = max(missing, MIB)
        await sandbox.exec(f"head -c {size} /dev/urandom >> /dev/shm/grown")
    return _own(sandbox, template)


def _own(sandbox: AsyncSandbox, template: Template) -> int:
    identity = sandbox.machine.identity
    return sum(length for _, length in private_runs(identity, *region(identity, template.memory)))


async def _chain(template: Template) -> list[float]:
    """Each the child of the one before; the seconds of each fork."""
    links = [await AsyncSandbox.create(template, ttl_seconds=3600)]
    taken = []
    try:
        for _ in range(DEEP):
            began = time.perf_counter()
            links.append(await links[-1].fork())
            taken.append(time.perf_counter() - began)
            if len(links) > 2:
                await links.pop(0).kill()
    finally:
        for link in links:
            await link.kill()
    return taken


async def _memory(template: Template) -> dict[str, float]:
    """Of children that idle for a while after they were made."""
    async with await AsyncSandbox.create(template, ttl_seconds=3600) as parent:
        child = await parent.fork()
        fresh, process = _own(child, template), private_bytes(child.machine.identity.pid)
        await child.kill()
        children = await parent.fork(IDLE)
        try:
            await asyncio.sleep(3)
            together = sum(each.memory_pss() for each in children)
        finally:
            for each in children:
                await each.kill()
    return {
        "fresh_child_own_pages_mib": fresh / MIB,
        "fresh_child_private_mib_with_qemu": process / MIB,
        "idle_children": IDLE,
        "guest_mib": template.shape.memory_mib,
        "idle_children_pss_mib": together / MIB,
    }


def _note(seconds: dict[str, list[float]], name: str, taken: float) -> None:
    seconds.setdefault(name, []).append(taken)


def _print(figures: dict[str, Any], ratios: dict[str, float], memory: dict[str, float]) -> None:
    print(f"\n{'':44} {'p50':>9} {'p99':>9}")
    for name, found in figures.items():
        print(f"{name:44} {found['p50'] * 1000:6.1f} ms {found['p99'] * 1000:6.1f} ms  n = {found['n']}")
    for name, ratio in ratios.items():
        print(f"{name:44} {ratio:8.2f}x")
    for name, amount in memory.items():
        print(f"{name.replace('_', ' '):44} {amount:8.1f}")


def _progress(what: str, done: int, of: int) -> None:
    if sys.stderr.isatty() or done % 10 == 0 or done == of:
        print(f"  {what}: {done}/{of}", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr)
