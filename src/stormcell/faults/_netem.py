"""Faults of netem: how each part is written, and how the kernel shows it."""

from __future__ import annotations

import math
from typing import Any, Literal

from stormcell.faults._tc import close, microseconds, percent

Distribution = Literal["uniform", "normal", "pareto", "paretonormal"]
LARGEST_LIMIT = 2_000_000
PACKET = 1514
"""Bytes of a full packet on Ethernet."""
PACKETS_PER_SECOND = 50_000
"""More than an emulated guest sends. netem's own default of 1000 packets in all loses the rest of any burst."""


def room(seconds: float) -> int:
    """Packets that may wait: half as many again as can arrive within `seconds`."""
    return min(LARGEST_LIMIT, max(1000, math.ceil(1.5 * PACKETS_PER_SECOND * seconds)))


def delay(seconds: float, jitter: float, correlation: float, distribution: Distribution) -> str:
    """`delay ...`. The kernel's own distribution is uniform: tc knows no table of that name."""
    words = ["delay", microseconds(seconds), microseconds(jitter), percent(correlation)]
    words += ["distribution", distribution] if distribution != "uniform" else []
    return " ".join(words)


def reach(seconds: float, jitter: float, distribution: Distribution) -> float:
    """The longest delay: the tables of tc reach four times the jitter."""
    return seconds + (jitter if distribution == "uniform" else 4 * jitter)


def shows_delay(options: dict[str, Any], seconds: float, jitter: float, correlation: float) -> bool:
    """Delay, jitter and correlation. None of them: no delay at all."""
    shown = options.get("delay")
    if not seconds and not jitter:
        return shown is None or shows_delay({"delay": shown}, 1e-9, 0.0, 0.0)
    return (
        isinstance(shown, dict)
        and close(shown.get("delay"), seconds)
        and close(shown.get("jitter"), jitter)
        and (not jitter or close(shown.get("correlation"), correlation / 100))
    )


def shows_share(options: dict[str, Any], name: str, key: str, share: float, correlation: float) -> bool:
    """A percentage with its correlation. 0: the part is not there at all."""
    shown = options.get(name)
    if not share:
        return shown is None
    return (
        isinstance(shown, dict)
        and close(shown.get(key), share / 100, absolute=1e-9)
        and close(shown.get("correlation"), correlation / 100)
    )
