"""The part of a sealed run's card: what it is a function of, how to repeat it, and its two clocks."""

from __future__ import annotations

from stormcell.judge.wording import GUEST_TIME, starred
from stormcell.report.evidence import SealedRun
from stormcell.report.figures import both, clocks
from stormcell.report.markup import Child, Html, tag
from stormcell.report.model import Run


def timed(run: Run, text: str) -> str:
    """A text of this run: its times have a star when they are guest time."""
    return starred(text) if run.sealed else text


def star(run: Run) -> Html | None:
    """What the star stands for."""
    return tag("p", f"* {GUEST_TIME}.", class_="small star") if run.sealed else None


def sealed_part(found: SealedRun) -> list[Child]:
    """Picture, command, digests."""
    guest, host, ratio = found.guest_seconds, found.host_seconds, found.ratio
    times: Child = tag("p", "It was cut off: how long it took is not known.", class_="quiet")
    if guest is not None and host is not None and ratio is not None:
        said = f"{ratio:.3g} s of guest time in each second of this machine's."
        times = [both(lambda width: clocks.draw(guest, host, width)), tag("p", said, class_="small")]
    facts = [
        ("seed", str(found.seed)),
        ("snapshot that it began from", found.snapshot),
        ("digest of its events", found.events_sha256),
    ]
    rows = [tag("div", tag("dt", name), tag("dd", tag("code", said))) for name, said in facts if said]
    inputs = [tag("span", f"{name} ", tag("b", said)) for name, said in found.inputs]
    return [
        times,
        tag("p", "Repeat it, and compare every event:", class_="small repeat") if found.replay else None,
        tag("pre", found.replay, class_="command", tabindex=0) if found.replay else None,
        tag("dl", rows, class_="facts"),
        tag("p", "Its events are a function of these and of nothing else:", class_="small"),
        tag("p", inputs, class_="params"),
    ]
