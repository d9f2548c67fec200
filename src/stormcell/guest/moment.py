"""Looks for the moment at which a machine is to be forked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest import measure, readings
from stormcell.guest.lifeline import Lifeline, Stop
from stormcell.guest.probes.attempts import Taken
from stormcell.guest.running import Run

_PIECE = 1 << 20
_LONGEST_LINE = 1 << 16
_SAID = 200
Look = Callable[[float], tuple[bool, str]]
"""`look(seconds left)`: whether the moment is there, and what was seen."""


class Lines:
    """The lines that are written to a file from now on; from its beginning if it is made, replaced or cut later."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inode, self._at = self._there()
        self._rest = b""

    def _there(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return -1, 0
        return found.st_ino, found.st_size

    def find(self, pattern: re.Pattern[str]) -> str | None:
        """The first new line that the pattern is found in. Raises OSError for a file that cannot be read."""
        inode, size = self._there()
        if inode < 0:
            return None
        if inode != self._inode or size < self._at:
            self._inode, self._at, self._rest = inode, 0, b""
        with open(self._path, "rb") as file:
            file.seek(self._at)
            while data := file.read(_PIECE):
                self._at += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                self._rest = self._rest[-_LONGEST_LINE:]
                for line in lines:
                    text = line.decode(errors="replace")
                    if pattern.search(text):
                        return text
        return None


def look_for(
    step: Mapping[str, Any], lines: Lines | None, run: Run, take: Callable[[str, Mapping[str, Any]], Taken], kind: str
) -> Look:
    """How the step's moment is looked for. `kind` is that of its probe."""
    if lines is not None:
        pattern = re.compile(step["match"])

        def look_at_lines(_left: float) -> tuple[bool, str]:
            try:
                line = lines.find(pattern)
            except OSError as error:
                return False, f"{step['file']} cannot be read ({error.strerror})"
            return line is not None, (line or "no new line matches")[:_SAID]

        return look_at_lines
    if step["probe"] is not None:

        def look_at_probe(_left: float) -> tuple[bool, str]:
            taken = take(step["probe"], step["spec"])
            return judged(step, kind, taken)

        return look_at_probe

    def look_at_command(left: float) -> tuple[bool, str]:
        done = run({**step["command"], "timeout_s": max(0.05, left)})
        output = done.output()
        said = (output["err"] or output["out"]).strip()[-_SAID:]
        return readings.accepted(step["command"], output), f"exit code {output['exit']}{said and ': '}{said}"

    return look_at_command


def wait_for(step: Mapping[str, Any], look: Look, lifeline: Lifeline, between: Callable[[], None]) -> dict[str, Any]:
    """The fields of a `moment` event. `between` is called between two looks. Raises Stop (`no_moment`)."""
    began, looks = lifeline.now(), 0
    if step["after_s"] is not None:
        lifeline.sleep(step["after_s"])
        return {"looks": 0, "seconds": round(lifeline.now() - began, 9), "text": step["text"]}
    while True:
        looks += 1
        came, said = look(began + step["within_s"] - lifeline.now())
        seconds = lifeline.now() - began
        if came:
            return {"looks": looks, "seconds": round(seconds, 9), "text": said}
        if seconds + step["every_s"] > step["within_s"]:
            raise Stop("no_moment", absent(step, said))
        between()
        lifeline.sleep(step["every_s"])


def absent(step: Mapping[str, Any], said: str) -> str:
    """A sentence about a moment that did not come."""
    return f"the moment did not come within {step['within_s']:g} s ({step['text']}); seen last: {said}"


def judged(step: Mapping[str, Any], kind: str, taken: Taken) -> tuple[bool, str]:
    """Whether the probe holds, or does not, as the step wants it. A probe that sent nothing says nothing."""
    found = measure.metrics(kind, step["spec"], taken.samples)
    checks = measure.checks(found, step["bounds"])
    said = ", ".join(f"{c['metric']} {c['measured']} (wanted {c['wanted']})" for c in checks)
    if not measure.measured(kind, "under", taken.samples, found, step["bounds"]):
        return False, "nothing was measured"
    return measure.holds(found, step["bounds"]) is step["holds"], said
