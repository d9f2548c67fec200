"""Nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stormcell.engine.campaigns.executor import Task


class Quiet:
    """A watch that says nothing."""

    def left(self, runs: Sequence[str]) -> None:
        """Ignored."""

    def began(self, task: Task, running: int) -> Callable[[Mapping[str, Any]], None]:
        """Ignored."""
        return lambda _: None

    def ended(self, task: Task, verdict: str, why: str, seconds: float) -> None:
        """Ignored."""

    def undone(self, task: Task, why: str) -> None:
        """Ignored."""

    def waits(self, why: str) -> None:
        """Ignored."""

    def judges(self, runs: int) -> None:
        """Ignored."""
