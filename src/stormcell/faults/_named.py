"""The shape of a fault that takes something away from one path, which the kernel's counters are then about."""

from __future__ import annotations

from typing import Any, Literal

from stormcell.faults._fields import GuestPath, Placed
from stormcell.faults._reading import mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading

TRACING = "/sys/kernel/tracing/kprobe_events"


class NamedFile(Placed):
    """One path of the guest."""

    path: GuestPath
    """Of a file or a folder."""
    made_anew: Literal["restore", "keep"] = "restore"
    """When the target has changed it meanwhile, the undo puts back what was before, or keeps what the target made."""

    @property
    def verb(self) -> tuple[str, str]:
        """What the tool does, and its amount."""
        raise NotImplementedError

    def plan(self) -> Act:
        """A mark says what was there."""
        what, amount = self.verb
        return Act(
            apply=(Command(argv=(GUEST, "file", what, self.id, self.path, *([amount] if amount else [])),
                           timeout_s=120),),
            undo=(Command(argv=(GUEST, "file", "undo", self.id, self.made_anew), timeout_s=120),),
            read=(Command(argv=(GUEST, "file", "show", self.id, self.path), name="file"),),
        )  # fmt: skip

    def began(self, before: Reading, during: Reading) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None:
        """What the path was, what the act noted, and what was read after it; None when they are not of one act."""
        was, shown = mapping(before, "file"), mapping(during, "file")
        now, act = was.get("now"), shown.get("act")
        if not isinstance(now, dict) or not isinstance(act, dict) or was.get("act") is not None:
            return None
        same = all(act.get(key) == now.get(key) for key in ("inode", "mode", "owner", "size"))
        return (now, act, shown) if same and act.get("what") == self.verb[0] else None

    def met(self, reading: Reading | None, result: str) -> dict[str, int]:
        """Calls of others that named the path and came back so, by process."""
        counts = mapping(reading, "file").get("counts")
        return numbers(counts.get(result)) if isinstance(counts, dict) else {}

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The same inode with the same owner, mode and content, unless the target's own was to be kept."""
        was, now = mapping(before, "file"), mapping(undone, "file")
        if not now:
            return not was
        gone = (now.get("act"), now.get("counts"), now.get("away")) == (None, None, False)
        return gone and (now.get("now") == was.get("now") or (self.made_anew == "keep" and now.get("now") is not None))

    def conflicts(self, other: Fault) -> str | None:
        """Two that take from one path, or one from inside the other."""
        if isinstance(other, NamedFile) and (
            f"{self.path}/".startswith(f"{other.path}/") or f"{other.path}/".startswith(f"{self.path}/")
        ):
            return f"{self.kind} and {other.kind} are both about {self.path}: the second would not find what it needs"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who met it, and what the target did about it."""
        shown = mapping(after, "file")
        counts = shown.get("counts")
        said = []
        for result, by in sorted(counts.items() if isinstance(counts, dict) else ()):
            said += [f"{process}: {count} calls that named it got {result}" for process, count in numbers(by).items()]
        then, now = mapping(during, "file").get("now"), shown.get("now")
        if shown and then != now:
            said.append(f"the target has changed it meanwhile; the undo will {self.made_anew} "
                        f"{'what was before' if self.made_anew == 'restore' else 'that'}")  # fmt: skip
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """By text."""
        return ("calls are counted by the text of the path: a relative name or another link to it is not",)
