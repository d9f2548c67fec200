"""A campaign as it goes on: each run its line, and how much is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from stormcell.cli.output import colour, say
from stormcell.cli.progress import Line, Watcher
from stormcell.engine.campaigns.api import CampaignRun
from stormcell.engine.campaigns.executor import Task
from stormcell.template.model import Progress

MANY = 100
"""So many runs are judged together in about two seconds."""


def estimate(done: Sequence[tuple[str, float]], left: Sequence[str], jobs: int) -> float | None:
    """Seconds until the last run ends. `done` are cells and the seconds of a run, `left` the cells of those to come.

    A run is thought to take as long as the others of its cell did, or of all cells where it is the first.
    """
    if not done or not left:
        return None if left else 0.0
    everyone = sum(seconds for _, seconds in done) / len(done)
    by_cell: dict[str, list[float]] = {}
    for cell, seconds in done:
        by_cell.setdefault(cell, []).append(seconds)
    means = {cell: sum(seconds) / len(seconds) for cell, seconds in by_cell.items()}
    return sum(means.get(cell, everyone) for cell in left) / min(jobs, len(left))


def rough(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`: an estimate has no digits to spare."""
    if seconds < 90:
        return f"{max(1, round(seconds / 5) * 5) if seconds > 10 else max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Follow:
    """Tells a person how a campaign goes on. A context manager."""

    def __init__(self, session: CampaignRun) -> None:
        planned = session.planned
        self._jobs = session.jobs
        self._total = len(planned)
        self._left = {execution.id: item.cell.name for item, execution in planned}
        self._done: list[tuple[str, float]] = []
        self._verdicts: dict[str, int] = {}
        self._lines: dict[str, Line] = {}
        self._watcher = Watcher(self._total)
        self._head: Line | None = None
        self._waited = 0.0
        self._begun = 0

    def __enter__(self) -> Self:
        self._watcher.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._watcher.__exit__(kind, error, tb)

    def build(self, progress: Progress) -> None:
        """A stage of a template build."""
        self._watcher.build(progress)

    def left(self, runs: Sequence[str]) -> None:
        """Only these are still to run. A search says so again and again, and knows no total."""
        if not self._total:
            return
        kept = set(runs)
        over = len(self._left.keys() - kept)
        self._left = {name: cell for name, cell in self._left.items() if name in kept}
        self._begun = over
        if over:
            say(f"{over} of {self._total} runs had come to an end; {len(self._left)} are left")

    def began(self, task: Task, running: int) -> Callable[[Mapping[str, Any]], None]:
        """Its line."""
        self._begun += 1
        name = task.execution.cell.name
        head = f"{name} seed {task.execution.seed}" + (f".{task.execution.repeat}" if task.execution.repeat > 1 else "")
        line = self._watcher.begin(self._begun, head) if self._total else Line(self._watcher, f"[{self._begun}] {head}")
        self._lines[task.id] = line
        if colour(sys.stderr):
            return line.event
        line.show("begins")  # a log of hundreds of runs needs no line a phase
        return lambda _: None

    def ended(self, task: Task, verdict: str, why: str, seconds: float) -> None:
        """Its verdict, and what is left."""
        self._done.append((task.execution.cell.name, seconds))
        self._left.pop(task.id, None)
        self._verdicts[verdict] = self._verdicts.get(verdict, 0) + 1
        self._lines.pop(task.id).ended(verdict, why)
        self._tell()

    def undone(self, task: Task, why: str) -> None:
        """It may be run again."""
        if task.id in self._lines:
            self._lines.pop(task.id).ended("undone", why)

    def waits(self, why: str) -> None:
        """Said at most every ten seconds."""
        if time.monotonic() - self._waited > 10:
            self._waited = time.monotonic()
            say(f"waiting {why}")

    def judges(self, runs: int) -> None:
        """Said where it takes long enough to wonder."""
        if runs > MANY:
            say(f"judging {runs} runs together")

    def _tell(self) -> None:
        counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self._verdicts.items()))
        text = f"{len(self._done)} done ({counted})"
        if self._total:
            left = estimate(self._done, list(self._left.values()), self._jobs)
            about = f", about {rough(left)}" if left else ""
            text += f", {len(self._left)} left{about}"
        if colour(sys.stderr):
            self._head = self._head or Line(self._watcher, "campaign")
            self._head.show(text)
        else:
            say(text)
