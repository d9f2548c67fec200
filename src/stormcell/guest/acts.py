"""The faults of a run: the reading, the receipt before the act, the act, and what takes it back.

Each begun fault has its receipt on disk, so that any process can undo it from that alone (watchdog.py, undo.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from stormcell.guest import readings
from stormcell.guest.lifeline import Stop
from stormcell.guest.running import Finished, RunAll

Planned = Mapping[str, Any]


class Emit(Protocol):
    """Writes an event."""

    def __call__(self, event: str, **fields: Any) -> None:
        """See events.py."""


def _at_once() -> None:
    """No pause."""


def called(name: str, planned: Planned) -> str:
    """A fault in a sentence: one that was given a name by that, too."""
    return planned["kind"] if name == "fault" else f"'{name}' ({planned['kind']})"


class Act:
    """One fault. `cycle` counts its acts and the changes in place between them, from 0; it is in every event."""

    def __init__(self, name: str, planned: Planned, run_all: RunAll, emit: Emit, now: Callable[[], float]) -> None:
        self.name = name
        self._planned = planned
        self._run_all = run_all
        self._emit = emit
        self._now = now
        self._before: dict[str, Any] = {}
        self._level = 0
        self._cycle = -1
        self.in_force_at = 0.0
        """When the last act or change was done."""
        self.reading_s = 0.0
        """How long the last reading took."""
        self.undo: list[dict[str, Any]] | None = None

    @property
    def begun(self) -> bool:
        """Something of it may be there to undo."""
        return self.undo is not None

    def begin(self, level: int = 0) -> None:
        """Raises Stop (`apply_failed`); what was begun is then still to be undone."""
        self._cycle, self._level = self._cycle + 1, level
        commands = self._commands(level)
        self._before = self._reading("before")
        self._write_receipt(commands["undo"])
        self._perform(commands["apply"])
        self._reading("during")

    def change(self, level: int, pause: Callable[[], None] = _at_once) -> None:
        """From the level before to this one, in place, after reading and pause. Raises Stop (`apply_failed`)."""
        self._reading("after")
        pause()
        self._cycle, self._level = self._cycle + 1, level
        commands = self._commands(level)
        self._emit("reading", **self._place(), label="before", reading=self._before)
        self._write_receipt(commands["undo"])
        self._perform(commands["change"])
        self._reading("during")

    def end(self, pause: Callable[[], None] = _at_once) -> bool:
        """The reading, the pause, the undo, and the reading after it. False when the undo failed."""
        undo, self.undo = self.undo or [], None
        try:
            self._reading("after")
            pause()
        finally:
            until = round(self._now(), 9)
            ok, outputs = readings.undo_all(undo, self._run_all)
            if ok:
                readings.forget_receipt(self.name)
            self._emit("undone", **self._place(), ok=ok, outputs=outputs, until=until)
            self._reading("undone")
        return ok

    def adopt(self, undo: list[dict[str, Any]]) -> None:
        """An earlier runner began it; it is to be undone here."""
        self._cycle, self.undo = 0, undo

    @property
    def _turns(self) -> int:
        """Of its schedule: how often it is to begin."""
        return sum(moment["do"] == "apply" for moment in self._planned.get("moments") or ())

    def _commands(self, level: int) -> Mapping[str, Any]:
        levels = self._planned.get("levels") or ()
        return levels[level] if levels else self._planned

    def _place(self) -> dict[str, Any]:
        cycle = {"cycle": self._cycle, "level": self._level} if self._cycle or self._level else {}
        return {"fault": self.name, **cycle}

    def _reading(self, label: str) -> dict[str, Any]:
        began = self._now()
        reading = readings.take_reading(self._commands(self._level)["read"], self._run_all, began)
        self.reading_s = self._now() - began
        self._emit("reading", **self._place(), label=label, reading=reading)
        return reading

    def _write_receipt(self, undo: list[Mapping[str, Any]]) -> None:
        filled = readings.filled_in(undo, self._before)
        kind = self._planned["kind"]
        readings.save_receipt(self.name, {"fault": self.name, "kind": kind, "undo": filled, "before": self._before})
        self._emit("receipt", **self._place(), undo=filled)
        self.undo = filled

    def _perform(self, commands: list[Mapping[str, Any]]) -> None:
        tried = round(self._now(), 9)
        ended = self._run_all(commands, until_failure=True)
        over = self._now()
        outputs = [done.output() for done in ended]
        bad = next((n for n, output in enumerate(outputs) if not readings.accepted(commands[n], output)), None)
        if bad is not None:
            command, done = commands[bad], ended[bad]
            if done.outcome == command.get("nobody") and self._turns > 1:
                self._emit("applied", **self._place(), ok=False, outputs=outputs, nobody=_why(command, done))
                return
            self._emit("applied", **self._place(), ok=False, outputs=outputs)
            raise Stop("apply_failed", f"{called(self.name, self._planned)}: {_why(command, done)}")
        self.in_force_at = over
        since = round(self.in_force_at, 9)
        self._emit("applied", **self._place(), ok=True, outputs=outputs, tried=tried, since=since)


def _why(command: Mapping[str, Any], done: Finished) -> str:
    """Of a tool of ours the sentence that it said, else the command and how it failed."""
    argv = command["argv"]
    said = f"{' '.join(argv[1:3])}: "
    if argv[0] == "stormcell-guest" and done.outcome in (1, command.get("nobody")) and done.err.startswith(said):
        return done.err.removeprefix(said).strip()[-400:]
    return f"`{' '.join(argv)}` {failure(done)}"


def failure(done: Finished) -> str:
    """How a command failed, for a sentence."""
    how = f"ended with exit code {done.outcome}" if isinstance(done.outcome, int) else f"failed ({done.outcome})"
    said = (done.err.strip() or done.out.strip())[-400:]
    return f"{how}: {said}" if said else how
