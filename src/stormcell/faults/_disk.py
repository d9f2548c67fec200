"""What the two disk faults share: a filler that is there or not, and processes that were refused room."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from stormcell.faults._fields import GuestPath, Placed
from stormcell.faults._reading import counted, mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading

TRACEPOINT = "/sys/kernel/tracing/events/raw_syscalls/sys_exit/trigger"
LONG = 300.0


class Filler(Placed):
    """Room is taken by a filler in the folder, and the kernel counts who is refused from then on."""

    path: GuestPath
    """A folder; the file system that holds it is filled, and nothing else. The filler is a hidden entry in it."""

    @field_validator("path")
    @classmethod
    def _has_space(cls, path: str) -> str:
        if path.split("/")[1] in ("proc", "sys"):
            raise ValueError(f"'{path}' is in a view of the kernel, which is no file system with space to fill")
        return path

    def taken(self) -> tuple[str, ...]:
        """Arguments of the subcommand that fills, after the counter's name."""
        raise NotImplementedError

    @property
    def what(self) -> str:
        """`blocks` or `inodes`."""
        raise NotImplementedError

    @property
    def counter(self) -> str:
        """Name of the kernel's counter, and the end of the filler's."""
        return self.id

    def plan(self) -> Act:
        """The undo removes what is there, also after an act that was killed half-way."""
        return Act(
            apply=(Command(argv=(GUEST, "fill", self.what, self.counter, *self.taken()), timeout_s=LONG),),
            undo=(Command(argv=(GUEST, "fill", "clear", self.counter, self.path), timeout_s=LONG),),
            read=(
                Command(argv=(GUEST, "fill", f"show-{self.what}", self.counter, *self.taken()), name="room"),
            ),
        )  # fmt: skip

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """The filler is as large as it was, whatever room the target has given back meanwhile."""
        return told(after).get("filler") == told(during).get("filler")

    def acted(self, during: Reading, after: Reading) -> int:
        """Refused calls of other processes than ours, since the filling began."""
        return sum(counted(told(after).get("refused")).values())

    def conflicts(self, other: Fault) -> str | None:
        """Two that fill one folder."""
        if isinstance(other, type(self)) and other.path == self.path:
            return f"two {self.kind} in {self.path}: the second would find nothing to take"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Which file system it is, who was refused."""
        on = told(after).get("on")
        where = [f"{self.path} is on {on.get('source')} ({on.get('kind')}), mounted on {on.get('mount')}"] if (
            isinstance(on, dict)) else []  # fmt: skip
        refused = numbers(told(after).get("refused"))
        return (*where, *(f"{process} was refused room {count} times" for process, count in refused.items()))


def told(reading: Reading | None) -> dict[str, Any]:
    """What the subcommand showed, {} when it did not."""
    return mapping(reading, "room")


def all_refused(shown: dict[str, Any]) -> bool:
    """Every write of the probe was refused for want of room, and there was one."""
    probe = numbers(shown.get("probe"))
    return probe.get("attempts", 0) > 0 and probe.get("refused") == probe["attempts"]


def none_refused(shown: dict[str, Any]) -> bool:
    """The probe wrote what it wanted."""
    probe = numbers(shown.get("probe"))
    return probe.get("attempts", 0) > 0 and probe.get("refused") == 0
