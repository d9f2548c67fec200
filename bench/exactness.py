"""How exact the faults are: what an observer in the guest measures against what was asked for, over many runs."""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.template.model import Template
from tests.guest.faults.fault_trial import Bench, Trial
from tests.guest.faults.recording import GROUP, SPINNER

TOOL = Path(__file__).parents[1] / "tests" / "guest" / "faults" / "network_tool.py"
SMALL, LARGE = 150_000, 450_000
"""Bytes of two transfers: their difference is free of the burst that passes at once, and of the handshake."""


@dataclass(frozen=True)
class Figure:
    """One fault, the command that observes it, and how its output is read."""

    unit: str
    asked: float
    fault: Mapping[str, Any]
    under: str
    read: Callable[[str], float]
    loads: tuple[str, ...] = ()


def _number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    return float(match[1]) if match else math.nan


def _loss(text: str) -> float:
    """Request and reply both leave through lo: what is lost of both is 1 - (1 - p)^2."""
    return 100 * (1 - math.sqrt(1 - _number(r"([0-9.]+)% packet loss", text) / 100))


def _usage(text: str) -> float:
    """Two readings of (uptime in seconds, CPU time in microseconds)."""
    first, last = ([float(word) for word in line.split()] for line in text.split("\n")[:2])
    return 100 * (last[1] - first[1]) / 1e6 / (last[0] - first[0])


def _rate(text: str) -> float:
    first, last = (_number(r"([0-9.]+)", line) for line in text.strip().split("\n")[:2])
    return (LARGE - SMALL) * 8 / (last - first)


_USED = f"echo $(cut -d' ' -f1 /proc/uptime) $(awk '/usage_usec/ {{print $2}}' {GROUP}/cpu.stat)"
FIGURES = {
    "net.delay": Figure(
        "ms", 100.0, {"kind": "net.delay", "device": "lo", "delay": "100ms"}, "ping -c 5 -i 0.2 -q 127.0.0.1",
        lambda text: _number(r"= [0-9.]+/([0-9.]+)/", text) / 2,
    ),
    "net.loss": Figure(
        "%", 20.0, {"kind": "net.loss", "device": "lo", "loss": "20%"},
        "ping -c 400 -i 0.004 -W 1 -q 127.0.0.1", _loss,
    ),
    "net.rate": Figure(
        "kbit/s", 1000.0, {"kind": "net.rate", "device": "lo", "remote_port": 9000, "rate": "1mbit"},
        f"python3 /root/tool.py transfer 127.0.0.1 9000 {SMALL}; sleep 1; "
        f"python3 /root/tool.py transfer 127.0.0.1 9000 {LARGE}",
        _rate, ("python3 /root/tool.py serve 9000",),
    ),
    "cpu.limit": Figure(
        "%", 25.0, {"kind": "cpu.limit", "service": "victim", "percent": "25%"},
        f"{_USED}; sleep 3; {_USED}", _usage, (SPINNER,),
    ),
}  # fmt: skip


def measure(template: Template, runs: int) -> dict[str, Any]:
    """Bias (mean error) and spread (standard deviation) of each, in its unit."""
    found: dict[str, Any] = {}
    for name, figure in FIGURES.items():
        bench = Bench(template)
        bench.put("/root/tool.py", TOOL.read_text())
        try:
            seen = [_once(bench, figure) for _ in range(runs)]
        finally:
            bench.close()
        errors = [value - figure.asked for value in seen]
        found[name] = {
            "asked": figure.asked,
            "unit": figure.unit,
            "bias": statistics.fmean(errors),
            "spread": statistics.stdev(errors) if len(errors) > 1 else 0.0,
            "n": len(errors),
        }
        shown = found[name]
        print(
            f"{name:12} asked {figure.asked:g} {figure.unit}: bias {shown['bias']:+.2f} {figure.unit}, "
            f"spread {shown['spread']:.2f} {figure.unit} (n = {runs})"
        )
        sys.stdout.flush()
    return found


def _once(bench: Bench, figure: Figure) -> float:
    trial: Trial = bench.attempt(figure.fault, loads=figure.loads, under=[figure.under])
    trial.proven()
    value = figure.read(trial.said[0])
    if math.isnan(value):
        raise ValueError(f"the observer said {trial.said[0]!r}")
    return value
