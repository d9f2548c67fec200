"""`io.limit`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._block import TRACING
from stormcell.faults._fields import GuestPath
from stormcell.faults._reading import mapping, numbers
from stormcell.faults._target import Target, listed, restarts, who
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Size, size_text

LEAST = 16 << 10
Operations = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class IoLimit(Target):
    """A service gets no more I/O than this on the device that holds a path; requests past it wait in the kernel.

    It applies to direct I/O, to reads that miss the page cache and to fsync at once, and to other writes only at
    writeback: a buffered write() is done when its page is in memory.
    """

    kind = "io.limit"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers", TRACING))
    counts = "requests to the device that the kernel held back and sent on later"
    proves = "io.max of that cgroup, and the kernel's count of requests that its throttle sent on, by their stack"
    example: ClassVar[dict[str, Any]] = {
        "kind": "io.limit", "service": "postgresql", "path": "/var/lib/postgresql", "write": "1MiB",
    }  # fmt: skip

    path: GuestPath
    """Any path: the disk that really holds it is meant, links and bind mounts are followed."""
    read: Size | None = None
    """Bytes a second, at least 16KiB."""
    write: Size | None = None
    """Bytes a second, at least 16KiB."""
    read_operations: Operations | None = None
    """Requests a second."""
    write_operations: Operations | None = None
    """Requests a second."""

    @model_validator(mode="after")
    def _sensible(self) -> IoLimit:
        if not self.limits:
            raise ValueError("one of 'read', 'write', 'read_operations' and 'write_operations' is needed")
        for name, value in (("read", self.read), ("write", self.write)):
            if value is not None and value < LEAST:
                raise ValueError(f"'{name}' of {size_text(value)} a second is out of range; it is at least 16KiB")
        return self

    @property
    def limits(self) -> dict[str, str]:
        """As io.max has them."""
        given = {"rbps": self.read, "wbps": self.write, "riops": self.read_operations, "wiops": self.write_operations}
        return {key: str(value) for key, value in given.items() if value is not None}

    @property
    def written(self) -> str:
        """In one argument."""
        return " ".join(f"{key}={value}" for key, value in self.limits.items())

    def plan(self) -> Act:
        """The undo knows from a mark what was there."""
        return Act(
            apply=(Command(argv=(GUEST, "iolimit", "act", self.id, self.path, self.written, *self.target)),),
            undo=(Command(argv=(GUEST, "iolimit", "restore", self.id)),),
            read=(Command(argv=(GUEST, "iolimit", "show", self.id, self.path, *self.target), name="io"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The limits are there, and none of them was before."""
        was, now = mapping(before, "io"), mapping(during, "io")
        act = now.get("act")
        if not was or was.get("act") is not None or not isinstance(act, dict) or act.get("path") != self.path:
            return False
        if self.folder is None and not any(p.get("in") == now.get("folder") for p in listed(now.get("moved"))):
            return False
        shown, earlier = _pairs(now.get("limits")), _pairs(was.get("limits"))
        return all(shown.get(key) == value != earlier.get(key) for key, value in self.limits.items())

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """The limits stayed, whoever lives on."""
        shown = _pairs(mapping(after, "io").get("limits"))
        return self.in_force(before, during) and all(shown.get(key) == value for key, value in self.limits.items())

    def acted(self, during: Reading, after: Reading) -> int:
        """Held back."""
        held = mapping(after, "io").get("held")
        return held if isinstance(held, int) else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The old limits, nothing counts."""
        was, now = mapping(before, "io"), mapping(undone, "io")
        gone = now.get("act") is None and now.get("held") is None
        return bool(now) and gone and (self.folder is None or now.get("limits") == was.get("limits"))

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """Other amounts of the same limits."""
        if not isinstance(to, IoLimit) or self.target != to.target or self.path != to.path:
            return None
        if self.limits.keys() != to.limits.keys():
            return None
        return (Command(argv=(GUEST, "iolimit", "change", self.id, to.written)),)

    def conflicts(self, other: Fault) -> str | None:
        """One group has one limit on a device."""
        if not isinstance(other, IoLimit) or not self.same_target(other):
            return None
        both = sorted(self.limits.keys() & other.limits.keys())
        return f"both write {', '.join(both)} of io.max of the same target" if both else None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Rates, who waited, and to what the limit applied."""
        now = mapping(after, "io")
        act = now.get("act")
        if not isinstance(act, dict):
            return ()
        said = [f"{self.path} is on the device {act.get('device')}"]
        at_act = act.get("at_act")
        then = at_act if isinstance(at_act, dict) else {}
        first, last = numbers(then.get("stat")), numbers(now.get("stat"))
        began, ended = then.get("ns"), now.get("ns")
        if isinstance(began, int) and isinstance(ended, int) and ended > began:
            for key, what in (("rbytes", "read"), ("wbytes", "written")):
                moved = last.get(key, 0) - first.get(key, 0)
                rate = int(moved * 1e9 / (ended - began)) // 1024 * 1024
                said.append(f"{size_text(max(0, moved))} were {what} on it since the act, {size_text(rate)} a second")
        stalled, before_us = now.get("pressure"), then.get("pressure")
        if isinstance(stalled, int) and isinstance(before_us, int):
            said.append(f"somebody of the group waited for I/O for {(stalled - before_us) / 1e6:.2f} s (io.pressure)")
        pending = numbers(now.get("not_yet_written"))
        said.append(
            "applies to: direct I/O, reads past the page cache and fsync at once; other writes at writeback alone "
            f"({size_text(pending.get('file_dirty', 0))} are dirty and {size_text(pending.get('file_writeback', 0))} "
            "are being written)"
        )
        moved_in = listed(now.get("moved"))
        if moved_in and self.folder is None:
            said.append(f"moved to a group for the fault: {', '.join(who(p) for p in moved_in[:8])}")
        return (*said, *restarts(now.get("targets"), now.get("now"), covered=self.folder is not None))

    def cannot_know(self) -> tuple[str, ...]:
        """Writeback, others on the device."""
        said = [
            "a write() that only fills the page cache is not slowed; its writeback is, which may come after the undo"
        ]
        said.append("requests of other limited groups on the same device that were held back are counted too")
        if self.folder is None:
            said.append("pages that the processes had before they were moved are written back in their old group")
        return tuple(said)


def _pairs(text: Any) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split()) if isinstance(text, str) else ()
    return {key: value for key, _, value in pairs}
