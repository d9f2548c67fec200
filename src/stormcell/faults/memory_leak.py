"""`memory.leak`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import shown as duration_shown
from stormcell.faults._holders import gone, number
from stormcell.faults._memory import MemoryTaker
from stormcell.faults._reading import mapping, mappings
from stormcell.faults._target import listed, pid_of
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Duration, Size, size_text

_LEAST = 0.7
_SLACK_S = 1.0


class MemoryLeak(MemoryTaker):
    """More and more memory is taken, as by a program that forgets to free it.

    With a target it is charged to the target's group. The process that leaks is the first victim when the kernel has to
    kill, and the leak ends with it.
    """

    kind = "memory.leak"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "KiB leaked, by the kernel's count of the leaking process's pages"
    proves = "the growth of RssAnon of the leaking process, and its cgroup"
    example: ClassVar[dict[str, Any]] = {
        "kind": "memory.leak", "service": "postgresql", "by": "4MiB", "every": "1s", "most": "256MiB",
    }  # fmt: skip

    by: Size
    """At least 64KiB."""
    every: Duration = 1.0
    """10ms to 1h."""
    most: Size
    """It stops growing there, and keeps what it has."""

    @model_validator(mode="after")
    def _sensible(self) -> MemoryLeak:
        if self.by < 1 << 16:
            raise ValueError(f"steps of {size_text(self.by)} are out of range; a step is at least 64KiB")
        if not 0.01 <= self.every <= 3600:
            raise ValueError(f"a step each {duration_shown(self.every)} is out of range; it is between 10ms and 1h")
        if self.most < self.by:
            raise ValueError(f"'most' ({size_text(self.most)}) is less than one step ({size_text(self.by)})")
        return self

    def work(self) -> tuple[str, ...]:
        """Bytes, seconds, bytes."""
        return ("leak", str(self.by), f"{self.every:g}", str(self.most))

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The leaking process stands where it should, and has not taken more than is due."""
        if not gone(before, "hold") or self.holder(during, f"sc-leak {self._rate}") is None:
            return False
        return self.held(during, f"sc-leak {self._rate}", "anon") <= self._due(during) + (2 << 20)

    @property
    def _rate(self) -> str:
        """KiB a second, as the process has it in its name."""
        return f"{self.by / self.every / 1024:.6g}"

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """It grew at the rate that was asked for, or the kernel killed it for memory."""
        if not self.in_force(before, during):
            return False
        if self._killed(after):
            return True
        held, due = self.held(after, f"sc-leak {self._rate}", "anon"), self._due(after)
        least = min(due, max(0, due - int(self.by * (1 + _SLACK_S / self.every)))) * _LEAST
        return self.in_force(before, after) and held >= least

    def acted(self, during: Reading, after: Reading) -> int:
        """KiB at the end; at the last look before it, when the kernel has killed the process for memory."""
        if self._killed(after):
            return max(1, self.held(during, f"sc-leak {self._rate}", "anon") >> 10)
        return self.held(after, f"sc-leak {self._rate}", "anon") >> 10

    def _due(self, reading: Reading) -> int:
        shown = mapping(reading, "hold")
        at, begun = number(shown, "at"), number(shown, "begun")
        steps = int((at - begun) / self.every) if at is not None and begun is not None else 0
        return min(self.most, steps * self.by)

    def _killed(self, after: Reading) -> bool:
        shown = mapping(after, "hold")
        ours = {holder.get("pid") for holder in listed(shown.get("started"))}
        return any(pid_of(kill) in ours for kill in mappings(shown.get("kills")))

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Growth against the request."""
        if after is None or not mapping(after, "hold"):
            return ()
        held = self.held(after, f"sc-leak {self._rate}", "anon") >> 10
        due = self._due(after) >> 10
        return (f"leaked {held} KiB of {due} KiB that were due", *super().notes(before, during, after))
