"""What happens, as it happens, on standard error: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from stormcell.cli.output import colour, safe, say
from stormcell.engine.api import Outcome
from stormcell.judge.wording import starred
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
QUIET_S = 10.0
MARK = {"survived": "green", "failed": "red", "void": "yellow", "unknown": "magenta"}


class Watcher:
    """Follows the runs of one command. `begin` gives each its own line."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.live: Any = None
        self._build: Line | None = None

    def __enter__(self) -> Self:
        if colour(sys.stderr):
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            from stormcell.cli.screen import Screen

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self.live = Progress(*columns, console=Screen(stderr=True), transient=True)
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()

    def begin(self, number: int, name: str) -> Line:
        """The run with this number."""
        self._end_build()
        return Line(self, f"[{number}/{self.total}] {name}")

    def build(self, progress: Progress) -> None:
        """A stage of a template build."""
        if self._build is None:
            self._build = Line(self, "template")
        self._build.show(f"{progress.template}: {progress.text}")

    def _end_build(self) -> None:
        if self._build is not None:
            self._build.close()
            self._build = None


class Line:
    """One moving line on a terminal; elsewhere a line whenever the phase changes."""

    def __init__(self, watcher: Watcher, head: str) -> None:
        self._live = watcher.live
        self._head = head
        self._text = ""
        self._branch = ""
        self._began = self._said = time.monotonic()
        self._task = self._live.add_task(_plain(head)) if self._live is not None else None

    def event(self, event: Mapping[str, Any]) -> None:
        """An event of the run."""
        kind, branch = event.get("event"), event.get("branch")
        if branch is not None:
            self._branch = f"{branch}: "
        if kind == "create":
            self.show("restoring the machine" if branch is None else f"{self._branch}forking")
        elif kind == "paused":
            self.show("at its moment")
        elif kind == "machine" and event.get("what") in ("act", "boot"):
            doing = "crashing the machine" if event["what"] == "act" else "booting from the crashed disk"
            self.show(f"{self._branch}{doing}")
        elif kind == "step" and event.get("step") == "moment":
            self.show("driving to the moment")
        elif kind == "step" and event.get("step") == "act" and branch is not None:
            self.show(f"{self._branch}no fault")
        elif kind == "step" and event.get("phase") in PHASES:
            self.show(f"{self._branch}{PHASES[event['phase']]}")
        elif kind == "beat":
            self._beat(event["seconds"])

    def done(self, outcome: Outcome) -> None:
        """The verdict, on a line that stays."""
        verdict = str(outcome.verdict)
        why = outcome.result.reasons[0].text if outcome.result.reasons else ""
        why = starred(why) if outcome.result.instruction_time else why
        self._stay(verdict, why, MARK[verdict])

    def ended(self, verdict: str, text: str) -> None:
        """A verdict, or `undone`, with whatever belongs behind it."""
        self._stay(verdict, text, MARK.get(verdict, "dim"))

    def failed(self, error: StormcellError) -> None:
        """The run did not come to a verdict."""
        self._stay("error", str(error), "red")

    def interrupted(self) -> None:
        """Ctrl-C."""
        self._stay("unknown", "interrupted; the machine was released", "magenta")

    def show(self, text: str) -> None:
        """What is being done now."""
        if text == self._text:
            return
        self._text = text
        if self._live is not None:
            self._live.update(self._task, description=_plain(f"{self._head}: {text}"))
        else:
            self._said = time.monotonic()
            say(f"{self._head}: {text}")

    def _beat(self, seconds: float) -> None:
        """How far a sealed guest is; without a terminal only when nothing else was said for a while."""
        text = f"{self._head}: {self._text}, {seconds:.1f} s of the guest"
        if self._live is not None:
            self._live.update(self._task, description=_plain(text))
        elif time.monotonic() > self._said + QUIET_S:
            self._said = time.monotonic()
            say(text)

    def close(self) -> None:
        """Take the line away."""
        if self._live is not None and self._task is not None:
            self._live.remove_task(self._task)
            self._task = None

    def _stay(self, label: str, text: str, style: str) -> None:
        took = f"{time.monotonic() - self._began:.1f} s"
        if self._live is not None:
            self._live.console.print(
                f"[{style}]{label:8}[/{style}] {_plain(self._head)} [dim]{took}[/dim]  {_plain(text)}"
            )
        else:
            say(f"{self._head}: {label} after {took}: {text}")
        self.close()


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(safe(text))
