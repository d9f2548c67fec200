"""Background commands of a run: started, watched while the runner waits, stopped with their whole tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from stormcell.guest.events import Events
from stormcell.guest.lifeline import Lifeline, Stop
from stormcell.guest.running import Process
from stormcell.guest.spawn import NotStarted
from stormcell.guest.trees import Forest

EARLY = 0.2
"""Seconds within which a load that fails is one that never worked."""
_DRAIN = 0.2


class Loads:
    """The loads of one run, by name. Each gives `load` events: started, perhaps exited (by itself), stopped."""

    def __init__(self, lifeline: Lifeline, forest: Forest, events: Events) -> None:
        self._lifeline = lifeline
        self._forest = forest
        self._events = events
        self._running: dict[str, Process] = {}
        self._told: set[str] = set()

    def start(self, name: str, command: Mapping[str, Any]) -> None:
        """Raises Stop (`load_failed`) when it cannot be started, or fails at once."""
        try:
            process = self._running[name] = Process(self._lifeline, self._forest, {**command, "part": "load"})
        except (NotStarted, OSError) as error:
            raise Stop("load_failed", f"load '{name}' could not be started: {error}") from None
        self._events.emit("load", load=name, state="started", pid=process.pid)
        self._lifeline.until(lambda: process.ended, EARLY)
        if process.ended:
            self.look()
            del self._running[name]
            done = process.finish()
            if done.outcome != 0:
                said = done.output()["err"].strip()[-300:]
                raise Stop("load_failed", f"load '{name}' ended at once with {done.outcome}: {said}")

    def look(self) -> None:
        """Tell of every load that ended by itself since the last look."""
        for name, process in self._running.items():
            if process.ended and name not in self._told:
                self._told.add(name)
                self._lifeline.settle(lambda process=process: process.quiet, _DRAIN)  # type: ignore[misc]
                code = os.waitstatus_to_exitcode(process.status or 0)
                self._events.emit("load", load=name, state="exited", **_output(process, code if code >= 0 else None))

    def go_on(self) -> None:
        """In a fork of the machine: say what goes on here, too."""
        for name, process in self._running.items():
            if name not in self._told:
                self._events.emit("load", load=name, state="goes_on", pid=process.pid)

    def stop(self, name: str, grace: float) -> None:
        """SIGTERM to its process group, SIGKILL to its tree after `grace` seconds."""
        self.look()
        process = self._running.pop(name, None)
        if process is None or name in self._told:
            if process is not None:
                process.kill()
                process.finish()
            note = "it had ended by itself" if name in self._told else "it was not started by this runner"
            self._events.emit("load", load=name, state="stopped", exit=None, out="", err="", truncated=False, note=note)
            return
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except OSError:
            pass
        killed = not self._lifeline.settle(lambda: process.ended, grace)
        process.kill()
        done = process.finish()
        note = f"it did not heed SIGTERM within {grace:g} s and was killed" if killed else ""
        self._events.emit("load", load=name, state="stopped", **done.output(), note=note)

    def stop_all(self, grace: float) -> None:
        """Every load that is left, in the order of their start."""
        for name in list(self._running):
            self.stop(name, grace)


def _output(process: Process, code: int | None) -> dict[str, Any]:
    truncated = process.out.truncated or process.err.truncated
    return {
        "exit": code,
        "out": process.out.text,
        "err": process.err.text,
        "truncated": truncated,
        "seconds": round(process.seconds, 9),
    }
