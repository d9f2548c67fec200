"""`syscall.seccomp`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from stormcell.faults._bpf import Errno, Often, hit
from stormcell.faults._fields import Placed, ServiceName, one_or_list, several
from stormcell.faults._reading import mapping, mappings, numbers
from stormcell.guest.tools.seccomp.syscalls import GROUPS, NEVER, NUMBERS
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Duration
from stormcell.spec.value import nearest

LONGEST_S = 3600.0


def _known(value: object) -> tuple[str, ...]:
    for name in (names := several(value)):
        if name in NEVER:
            raise ValueError(f"'{name}' cannot be made to fail: {NEVER[name]}")
        if name not in NUMBERS and name not in GROUPS:
            raise ValueError(f"x86-64 has no system call '{name}'; {nearest(name, [*NUMBERS, *GROUPS])}")
    return names


_ITEM = {"type": "string", "examples": ["fsync", "openat", "getrandom"]}
Calls = Annotated[
    tuple[str, ...],
    BeforeValidator(_known),
    PlainSerializer(one_or_list, return_type=str | list[str]),
    WithJsonSchema({"anyOf": [_ITEM, {"type": "array", "items": _ITEM, "minItems": 1}]}),
]
_COVERED = ". ".join(f"`{name}` ({', '.join(calls)})" for name, calls in GROUPS.items())


class SyscallSeccomp(Placed, Often):
    """Any system call fails with any errno, or takes longer, for what is started under the fault and all below it.

    A filter (seccomp) hands the calls to a process of ours, which answers each one. The kernel lets a process put such
    a filter on itself alone, so the service is restarted, at the act and at the undo. Without a service, commands live
    under it by `stormcell-guest seccomp run FAULT COMMAND ...` (in an experiment with one fault: `fault`); those that
    outlive the undo keep the filter, and every call of theirs goes on from then. For what runs already, and for a file
    or an address alone, there is syscall.errno.
    """

    kind = "syscall.seccomp"
    needs = Needs(paths=("/proc/sys/kernel/seccomp/actions_avail",))
    counts = "system calls that were answered with the errno, or held for the delay"
    proves = (
        "answers that the kernel took, by process, call and errno, counted by the process that gives them; the filter "
        "of the processes by /proc/PID/status"
    )
    example: ClassVar[dict[str, Any]] = {
        "kind": "syscall.seccomp", "service": "postgresql", "call": "fsync", "errno": "EIO",
    }  # fmt: skip

    service: ServiceName | None = None
    """A service of the template; it is restarted. Without one, the fault waits for commands."""
    from_start: bool = False
    """Already while the service starts; else from when it is ready (or has failed to become so) on."""
    call: Calls = Field(
        description="System calls of x86-64 by name, one or a list; or groups, which are all ways to the same thing: "
        f"{_COVERED}. Calls that the C library answers without the kernel (vDSO: the clocks) are not met."
    )
    exact: bool = False
    """A name is that system call alone, also where a group has the same name."""
    errno: Errno | None = None
    """What they come back with: any name of errno(3). Nothing was done then. Without one, they go on after `delay`."""
    delay: Duration = 0.0
    """Waited before the call comes back or goes on, up to 1 hour. A signal does not end it, unless it kills."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] = 0
    """Of the draws of a `rate`: the same calls in the same order meet the same fate."""

    @model_validator(mode="after")
    def _does_something(self) -> SyscallSeccomp:
        if self.errno is None and not self.delay:
            raise ValueError("neither 'errno' nor 'delay' is given: every call would go on as it is")
        if self.delay > LONGEST_S:
            raise ValueError("'delay' is out of range; it is up to 1h")
        if self.from_start and self.service is None:
            raise ValueError("'from_start' is about a service; name one")
        if self.exact and (groups := [name for name in self.call if name not in NUMBERS]):
            raise ValueError(f"'{groups[0]}' is a group and no system call; leave 'exact' out")
        return self

    def words(self) -> tuple[str, ...]:
        """Everything as `key=value`, the amounts last."""
        fixed = (f"call={','.join(self.call)}", f"exact={int(self.exact)}", f"seed={self.seed}")
        return (*fixed, *self.amounts())

    def amounts(self) -> tuple[str, ...]:
        """What may change while the fault is in force."""
        return (f"errno={self.errno or ''}", f"delay={self.delay:.9g}", *super().amounts())

    def plan(self) -> Act:
        """By subcommands that know the supervisor."""
        make = (GUEST, "seccomp", "make", self.id, self.service or "-", str(int(self.from_start)), *self.words())
        return Act(
            apply=(Command(argv=make, timeout_s=90),),
            undo=(Command(argv=(GUEST, "seccomp", "unmake", self.id), timeout_s=90),),
            read=(Command(argv=(GUEST, "seccomp", "show", self.id), name="seccomp"),),
        )

    def change(self, to: SyscallSeccomp) -> tuple[Command, ...] | None:
        """Errno, delay, rate, every and limit."""
        fixed = {"service", "from_start", "call", "exact", "seed"}
        if self.model_dump(include=fixed) != to.model_dump(include=fixed):
            return None
        return (Command(argv=(GUEST, "seccomp", "change", self.id, *to.amounts())),)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The process that answers lives and does what was asked for; the kernel shows the filter on the service."""
        if mapping(before, "seccomp").get("made") is not False or not self._answers(during):
            return False
        gone = numbers(_answers(during)).get("joined", 0) > 0 and _total(during) > 0  # it ended by what it met
        return not self.service or gone or any(tree.get("filtered") is True for tree in _trees(during))

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """The process that answers does so still; a service may be between two lives."""
        return self.in_force(before, during) and self._answers(after)

    def _answers(self, reading: Reading) -> bool:
        asked = dict(word.split("=", 1) for word in self.words())
        told = _answers(reading)
        return told.get("on") is True and told.get("config") == asked

    def acted(self, during: Reading, after: Reading) -> int:
        """By the answers that the kernel took."""
        return _total(after)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Nobody answers, or waits for newcomers."""
        now = mapping(undone, "seccomp")
        return now.get("made") is False and now.get("left") is False

    def conflicts(self, other: Fault) -> str | None:
        """A process has one listener."""
        if isinstance(other, SyscallSeccomp) and other.service == self.service and self.service:
            return (
                f"service {self.service} can live under one filter; name all calls in one fault, or use syscall.errno"
            )
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Hits by process, who lives under it, and what could not be told."""
        hits = mappings(_answers(after).get("hits"))
        said = [hit({**one, "errno": one.get("errno") or "hit"}) for one in hits[:24]]
        if len(hits) > 24:
            said.append(f"{len(hits) - 24} more such counts are in the reading")
        if gone := numbers(_answers(after).get("totals")).get("gone"):
            said.append(f"{gone} calls were not waiting any more when they were to be answered; they are not counted")
        if after is not None and mapping(after, "seccomp").get("made") is True and not _answers(after):
            said.append("the process that answers was killed: from then on these calls came back with ENOSYS")
        inside = [f"{tree.get('comm')}[{tree.get('pid')}]" for tree in _trees(after) if tree.get("alive")]
        return (*said, f"started under the filter: {', '.join(inside[:8])}") if inside else tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """What the filter does not see or costs."""
        said = [
            "a call that fails does nothing; calls of 32-bit programs and what io_uring does inside go on",
            "a call that is meant and goes on takes some hundred times as long as without: a process of ours is asked",
        ]
        if self.service:
            said.append(
                "what happens while the service is restarted, at the act and at the undo, is not the calls' doing"
            )
        return tuple(said)


def _answers(reading: Reading | None) -> dict[str, Any]:
    told = mapping(reading, "seccomp").get("answers")
    return told if isinstance(told, dict) else {}


def _trees(reading: Reading | None) -> list[dict[str, Any]]:
    return mappings(_answers(reading).get("trees"))


def _total(reading: Reading | None) -> int:
    return max(0, numbers(_answers(reading).get("totals")).get("acted", 0))
