"""Faults that have their target by ptrace: a thread can have one tracer."""

from __future__ import annotations

from stormcell.faults._target import Target
from stormcell.spec.fault import Fault


class Traced(Target):
    """The part that two such faults have to agree on."""

    def conflicts(self, other: Fault) -> str | None:
        """Unless it is plain that the targets have no process in common."""
        if not isinstance(other, Traced) or _apart(self.target, other.target):
            return None
        return (
            "both hold threads by tracing them, and a thread can have one tracer; name two targets in the same way "
            "that have no process in common (two services, two users), or let one fault end before the other begins"
        )


def _apart(one: tuple[str, str], other: tuple[str, str]) -> bool:
    (by, what), (other_by, other_what) = one, other
    services = ("service", "main")
    if by == other_by == "cgroup":
        return not (f"{what}/".startswith(f"{other_what}/") or f"{other_what}/".startswith(f"{what}/"))
    if by != other_by and not {by, other_by} <= set(services):
        return False
    return what != other_what
