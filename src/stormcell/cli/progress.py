"""What happens, as it happens, on standard error: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from stormcell.cli.output import colour, say
from stormcell.engine.api import Outcome
from stormcell.spec.errors import StormcellError
from stormcell.template.model import Progress

PHASES = {
    "setup": "setting up",
    "before": "steady state before",
    "fault": "injecting",
    "under": "steady state under the fault",
    "undo": "undoing",
    "recovery": "recovering",
    "end": "ending",
}
MARK = {"survived": "green", "failed": "red", "void": "yellow", "unknown": "magenta"}


class Watcher:
    """Follows runs one after another."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._name = ""
        self._text = ""
        self._began = 0.0
        self._live: Any = None

    def __enter__(self) -> Self:
        if colour(sys.stderr):
            from rich.console import Console
            from rich.status import Status

            self._live = Status("", console=Console(stderr=True), spinner="dots")
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, name: str) -> None:
        """The next experiment."""
        self._number += 1
        self._name, self._began, self._text = name, time.monotonic(), ""

    def build(self, progress: Progress) -> None:
        """A stage of a template build."""
        self._show(f"template {progress.template}: {progress.text}")

    def event(self, event: Mapping[str, Any]) -> None:
        """An event of the run."""
        kind = event.get("event")
        if kind == "create":
            self._show("restoring the machine")
        elif kind == "machine" and event.get("what") in ("act", "boot"):
            self._show("crashing the machine" if event["what"] == "act" else "booting from the crashed disk")
        elif kind == "step" and event.get("phase") in PHASES:
            self._show(PHASES[event["phase"]])

    def done(self, outcome: Outcome) -> None:
        """The verdict, on a line that stays."""
        verdict = str(outcome.verdict)
        why = outcome.result.reasons[0].text if outcome.result.reasons else ""
        self._line(f"{verdict:8}", why, MARK[verdict])

    def failed(self, error: StormcellError) -> None:
        """The run did not come to a verdict."""
        self._line("error", str(error), "red")

    def interrupted(self) -> None:
        """Ctrl-C."""
        self._line("unknown ", "interrupted; the machine was released", "magenta")

    def _show(self, text: str) -> None:
        if text == self._text:
            return
        self._text = text
        line = f"[{self._number}/{self._total}] {self._name}: {text}"
        if self._live is not None:
            from rich.markup import escape

            self._live.update(escape(line))
        else:
            say(line)

    def _line(self, label: str, text: str, style: str) -> None:
        took = f"{time.monotonic() - self._began:.1f} s"
        head = f"[{self._number}/{self._total}] {self._name}"
        if self._live is not None:
            from rich.markup import escape

            self._live.console.print(
                f"[{style}]{label}[/{style}] {escape(head)} [dim]{took}[/dim]  {escape(text)}", highlight=False
            )
        else:
            say(f"{head}: {label.strip()} after {took}: {text}")
