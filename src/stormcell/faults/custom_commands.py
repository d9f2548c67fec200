"""`custom.commands`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._fields import Placed
from stormcell.spec.fault import Act, Command, Needs, Reading
from stormcell.spec.probe import Run
from stormcell.spec.units import Duration


class CustomCommands(Placed):
    """Your own commands, under the rules of every other fault: without evidence from the kernel the run is void."""

    kind = "custom.commands"
    needs = Needs()
    counts = "steps of the counter that you named"
    proves = "`shows` fails before the act and succeeds under the fault, and the number that `counter` prints rose"
    example: ClassVar[dict[str, Any]] = {
        "kind": "custom.commands",
        "apply": ["tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "netem", "delay", "100ms"],
        "undo": ["tc", "qdisc", "del", "dev", "lo", "root"],
        "shows": "tc qdisc show dev lo | grep -q 'netem.*delay 100ms'",
        "counter": "tc -s qdisc show dev lo | awk '$1 == \"Sent\" {print $4; exit}'",
    }

    apply: Run
    """What is done, as root: shell text, or a list of arguments. Any other exit code than 0 makes the run void."""
    undo: Run
    """What takes it back; it must also work after an act that failed half-way."""
    shows: Run
    """Exits with 0 while the fault is in force, and with anything else before the act and after the undo."""
    counter: Run
    """Prints one whole number that only the fault's touching of its target raises: a counter of the kernel."""
    timeout: Duration = Field(default=30.0)
    """For each of the commands."""

    @model_validator(mode="after")
    def _said(self) -> CustomCommands:
        for name in ("apply", "undo", "shows", "counter"):
            if not getattr(self, name):
                raise ValueError(f"'{name}' is empty; without it nothing is known about the fault")
        return self

    def plan(self) -> Act:
        """As they are."""
        return Act(
            apply=(self._command(self.apply, "apply"),),
            undo=(self._command(self.undo, "undo"),),
            read=(self._command(self.shows, "shows"), self._command(self.counter, "counter")),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """`shows` tells of a change."""
        return _exit(before) not in (None, 0) and _exit(during) == 0

    def acted(self, during: Reading, after: Reading) -> int:
        """How far the counter rose. One that cannot be read shows nothing."""
        first, last = during.text("counter"), after.text("counter")
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            return 0
        return int(last) - int(first)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """`shows` fails again."""
        return _exit(undone) not in (None, 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """A counter that is none."""
        said = after.text("counter") if after else "0"
        return () if said.isdigit() else (f"the counter printed no whole number but '{said[:60]}'",)

    def cannot_know(self) -> tuple[str, ...]:
        """Whose word it is."""
        return ("the evidence is as good as the commands `shows` and `counter`, which were given with the experiment",)

    def _command(self, run: Run, name: str) -> Command:
        argv = ("/bin/sh", "-c", run) if isinstance(run, str) else run
        return Command(argv=argv, name=name, timeout_s=self.timeout)


def _exit(reading: Reading) -> int | None:
    output = reading.outputs.get("shows")
    return output.exit if output else None
