"""Sealed runs: host seconds per guest second, sealed against live, templates, memory, replays and cases a minute."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.sandboxes import _mib, _quantiles
from stormcell.engine.api import run_async
from stormcell.engine.explore.run import explore
from stormcell.engine.load import load_mapping
from stormcell.engine.sealed.identity import resume_request
from stormcell.engine.sealed.run import replay, run_sealed
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.sandbox.memory import private_bytes, pss_bytes
from stormcell.spec.home import Home
from stormcell.template.build import build
from stormcell.template.sealed import SealedTemplate, build_sealed
from stormcell.template.store import find

IDLE_S, BUSY_S = 600, 5
"""Seconds of the guest."""
TOGETHER = 4
REPLAYS = 12
TURNS = 5
"""Of each way to run the same experiment: they take seconds each."""
LIMIT_S = 900.0
SPIN = f"import time\nuntil = time.monotonic() + {BUSY_S}\nwhile time.monotonic() < until: pass"
SHORT: dict[str, Any] = {
    "name": "short",
    "template": "base",
    "steady_state": [
        {"name": "echo", "command": {"run": ["ping", "-c", "1", "-W", "2", "127.0.0.1"]}, "expect": {"exit_code": 0}}
    ],
    "fault": {"kind": "net.delay", "device": "lo", "delay": "10ms"},
}
EXPLORED: dict[str, Any] = {
    **SHORT,
    "name": "explored",
    "explore": {"vary": {"fault.delay": ["1ms", "10ms", "100ms"]}, "when": {"from": "0s", "to": "2s"}},
}
EXPLORES = 30
WAITING = {**SHORT, "name": "waiting", "hold": "60s"}
TARGETS = {
    "guest seconds in a host second, idle": (">=", 40.0),
    "seconds for 60 s that are mostly waiting": ("<=", 6.0),
    "cases of explore a minute": (">=", 15.0),
}


def measure(runs: int) -> dict[str, Any]:
    """Seconds, ratios, memory, and the targets with what was measured."""
    return asyncio.run(_measure(runs))


async def _measure(runs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as place:
        home = _home(Path(place))
        templates = await _templates(home)
        template = await build_sealed(find("base", home), home=home)
        restores = [await _restore(template, home) for _ in range(runs)]
        speed = await _speed(template, home)
        live, sealed = await _both(home)
        waiting = await run_sealed(WAITING, home=home)
        assert waiting.sealed is not None
        together = await _memory(template, home)
        rate = await _replays(home)
        cases = await _explored(template, home)
    seconds = {
        "restore to resumed (sealed)": _quantiles(restores),
        "a short experiment, live": _quantiles(live),
        "a short experiment, sealed": _quantiles(sealed),
    }
    figures = {
        "guest seconds in a host second, idle": speed["idle"],
        "guest seconds in a host second, busy": speed["busy"],
        "seconds for 60 s that are mostly waiting": waiting.sealed.host_seconds,
        "replays a minute": rate,
        "cases of explore a minute": cases,
        "live / sealed, the same short experiment": seconds["a short experiment, live"]["p50"]
        / seconds["a short experiment, sealed"]["p50"],
    }
    met = {name: {"wanted": f"{sign} {value:g}", "met": _meets(figures[name], sign, value)}
           for name, (sign, value) in TARGETS.items()}  # fmt: skip
    _print(seconds, figures, templates, together, met)
    return {"seconds": seconds, "figures": figures, "templates": templates, "memory": together, "targets": met}


def _home(place: Path) -> Home:
    """A state of our own; of the user's cache all but the templates."""
    home = Home(place / "state", place / "cache")
    home.cache.mkdir(mode=0o700)
    for entry in Home.current().cache.iterdir():
        if entry.name not in ("templates", "sealed", "names", "instants"):
            (home.cache / entry.name).symlink_to(entry)
    return home


async def _templates(home: Home) -> dict[str, Any]:
    """Both variants of `base`, the image being there: how long they take, and how much room."""
    found = {}
    for kind, make, root in (("live", build, home.templates), ("sealed", build_sealed, home.sealed)):
        began = time.perf_counter()
        await make(find("base", home), home=home)
        seconds = time.perf_counter() - began
        found[kind] = {"build_seconds": seconds, "mib_on_disk": sum(map(_room, root.rglob("*"))) / 2**20}
        print(f"  {kind} template: {seconds:.1f} s", file=sys.stderr)
    return found


def _room(path: Path) -> int:
    return path.lstat().st_blocks * 512 if path.is_file() else 0


@asynccontextmanager
async def _resumed(template: SealedTemplate, home: Home) -> AsyncIterator[SealedMachine]:
    with tempfile.TemporaryDirectory(prefix="m-", dir=home.cache.parent) as place:
        machine = await SealedMachine.restore(template.spec("bench"), Path(place), template.state)
        try:
            machine.order(resume_request(1))
            await machine.go(LIMIT_S)
            yield machine
        finally:
            await machine.kill()
            await machine.close()


async def _restore(template: SealedTemplate, home: Home) -> float:
    began = time.perf_counter()
    async with _resumed(template, home):
        return time.perf_counter() - began


async def _speed(template: SealedTemplate, home: Home) -> dict[str, float]:
    """With the beats of a run: a command whose lines are told."""
    found = {}
    async with _resumed(template, home) as machine:
        for name, argv in (("idle", ["sleep", str(IDLE_S)]), ("busy", ["python3", "-c", SPIN])):
            began, before = time.perf_counter(), machine.status_now().now_ns
            machine.order({"op": "exec", "argv": argv, "timeout_s": LIMIT_S, "open": True})
            await machine.go(LIMIT_S)
            found[name] = (machine.status_now().now_ns - before) / 1e9 / (time.perf_counter() - began)
    return found


async def _both(home: Home) -> tuple[list[float], list[float]]:
    """Alternating, so that a noisy minute of the host falls on both."""
    live: list[float] = []
    sealed: list[float] = []
    for number in range(TURNS):
        for taken, run in ((live, run_async), (sealed, run_sealed)):
            began = time.perf_counter()
            outcome = await run(SHORT, home=home, seed=number)
            taken.append(time.perf_counter() - began)
            if outcome.verdict != "survived":
                raise SystemExit(f"a run of the bench did not survive: {outcome.result.reasons}")
    return live, sealed


async def _memory(template: SealedTemplate, home: Home) -> dict[str, Any]:
    """Of machines that were resumed and have run one command, side by side."""
    machines = [_resumed(template, home) for _ in range(TOGETHER)]
    entered = [await each.__aenter__() for each in machines]
    try:
        for machine in entered:
            machine.order({"op": "exec", "argv": ["python3", "-c", "pass"], "timeout_s": 60})
            await machine.go(LIMIT_S)
        pids = [machine.identity.pid for machine in entered]
        pss, own = [float(pss_bytes(pid)) for pid in pids], [float(private_bytes(pid)) for pid in pids]
    finally:
        for each in machines:
            await each.__aexit__(None, None, None)
    return {"machines": TOGETHER, "pss_mib_each": sum(pss) / TOGETHER / 2**20, "private_mib_each": _mib(own)}


async def _replays(home: Home) -> float:
    """A minute's worth, as many at once as there are cores."""
    recorded = await run_sealed(SHORT, home=home)
    places = asyncio.Semaphore(os.cpu_count() or 1)

    async def one() -> None:
        async with places:
            found = await replay(recorded.folder, home=home)
            if found.difference is not None:
                raise SystemExit(f"a replay of the bench differs: {found.difference.text}")

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(REPLAYS)))
    return 60 * REPLAYS / (time.perf_counter() - began)


async def _explored(template: SealedTemplate, home: Home) -> float:
    """All of them survive, so that none is shrunk; the drive to the instant does not count."""
    found = await explore(load_mapping(EXPLORED), template, runs=EXPLORES, jobs=os.cpu_count() or 1, home=home)
    if found.verdict != "survived" or found.runs != EXPLORES:
        raise SystemExit(f"an exploration of the bench did not survive: {found.as_dict()}")
    return found.per_minute


def _meets(value: float, sign: str, wanted: float) -> bool:
    return value >= wanted if sign == ">=" else value <= wanted


def _print(
    seconds: dict[str, Any], figures: dict[str, float], templates: dict[str, Any], memory: dict[str, Any],
    met: dict[str, Any],
) -> None:  # fmt: skip
    print()
    for name, found in seconds.items():
        print(f"{name:44} {found['p50']:8.3f} s, p99 {found['p99']:.3f} s  n = {found['n']}")
    for name, value in figures.items():
        target = f"  (wanted {met[name]['wanted']}: {'met' if met[name]['met'] else 'MISSED'})" if name in met else ""
        print(f"{name:44} {value:8.2f}{target}")
    for kind, found in templates.items():
        print(f"{kind + ' template':44} {found['build_seconds']:8.1f} s, {found['mib_on_disk']:.0f} MiB on disk")
    print(f"{'memory of a sealed run':44} {memory['pss_mib_each']:8.1f} MiB PSS each of {memory['machines']} at once")
