"""Faults that are programs in the kernel (eBPF): what they share. The guest's side is guest/tools/bpf/tool.py."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from stormcell.faults._fields import Documented
from stormcell.faults._reading import mapping, mappings, numbers, texts
from stormcell.faults._target import Target
from stormcell.guest.tools.bpf.calls import CALLS, Call, hooks_of
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Percent
from stormcell.spec.value import nearest

NEEDS = Needs(paths=("/sys/kernel/btf/vmlinux", "/sys/fs/bpf"))
DESCENT = ("on_exit", "on_fork")


def _errno(name: str) -> str:
    """The kernel's own name: EWOULDBLOCK is EAGAIN."""
    number = getattr(errno, name, None) if name.isalnum() else None
    if not isinstance(number, int):
        raise ValueError(f"there is no errno '{name}'; {nearest(name, errno.errorcode.values())}")
    return errno.errorcode[number]


Errno = Annotated[str, AfterValidator(_errno)]
"""An errno by name."""


def calls(*about: str) -> tuple[Call, ...]:
    """The groups with one of these filters."""
    return tuple(call for call in CALLS if call.about in about)


def explained(known: tuple[Call, ...]) -> str:
    """What each group covers, for the docs."""
    groups = (f"`{call.name}` ({call.covers}; hook {' and '.join(call.hooks)})" for call in known)
    return f"One group or a list of them. {'. '.join(groups)}."


def _one_of(names: tuple[str, ...]) -> Callable[[object], tuple[str, ...]]:

    def read(value: object) -> tuple[str, ...]:
        given = list(value) if isinstance(value, list | tuple) else [value]
        for name in given:
            if name not in names:
                raise ValueError(f"there is no group of calls '{name}' here; {nearest(str(name), names)}")
        if not given or len(set(given)) != len(given):
            raise ValueError("write one group of calls or a list of different ones")
        return tuple(name for name in names if name in given)

    return read


def schema(known: tuple[str, ...]) -> Any:
    """The type of a field that takes one or several groups."""
    item = {"type": "string", "enum": list(known)}
    return (
        BeforeValidator(_one_of(known)),
        PlainSerializer(lambda names: names[0] if len(names) == 1 else list(names), return_type=str | list[str]),
        WithJsonSchema({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}),
    )


class MaybeTarget(Target):
    """A target that may be left out: then every process is meant, but those of the control path."""

    @model_validator(mode="after")
    def _one_target(self) -> MaybeTarget:
        given = (self.service, self.name, self.pid, self.cgroup, self.user, self.port)
        if sum(value is not None for value in given) > 1:
            raise ValueError("several targets are given; one is meant, or none for every process")
        if self.processes == "main" and self.service is None:
            raise ValueError("'processes: main' is about a service; name one")
        return self

    @property
    def targeted(self) -> bool:
        """Is there one?"""
        return any(v is not None for v in (self.service, self.name, self.pid, self.cgroup, self.user, self.port))


OURS = ("/run/stormcell", "/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc")
"""What the sandbox's own tools have to read."""


def spares_the_system(path: str, targeted: bool) -> None:
    """A fault for everybody would meet our own tools, the undo among them. Raises ValueError."""
    if not targeted and any(f"{path}/".startswith(f"{o}/") or f"{o}/".startswith(f"{path.rstrip('/')}/") for o in OURS):
        raise ValueError(f"'{path}' is used by the sandbox itself, which has to survive the fault; name a target")


class Often(Documented):
    """How often what is meant happens."""

    rate: Percent = 100.0
    """Chance of each call that is meant. More than 0%, in steps of 0.0001%."""
    every: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)] | None = None
    """Instead of a rate: every such call of that many is hit, counted over all targets."""
    limit: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)] | None = None
    """Not more than so many in all."""

    @model_validator(mode="after")
    def _sensible(self) -> Often:
        if round(self.rate * 10_000) < 1:
            raise ValueError("a rate of less than 0.0001% does nothing; leave the fault out")
        if self.every is not None and self.rate != 100:
            raise ValueError("'rate' and 'every' are two ways to say how often; write one of them")
        return self

    def amounts(self) -> tuple[str, ...]:
        """As the guest's tools take them; these may change while the fault is in force."""
        return (f"rate={round(self.rate * 10_000)}", f"every={self.every or 0}", f"limit={self.limit or 0}")


class Programs(Often):
    """A fault that is programs in the kernel with a configuration, which is read back."""

    @property
    def object(self) -> str:
        """The compiled object in guest/bpf."""
        raise NotImplementedError

    def words(self) -> tuple[str, ...]:
        """Everything but the amounts, as `key=value`: guest/tools/bpf/config.py."""
        raise NotImplementedError

    def programs(self) -> set[str]:
        """What has to be attached."""
        raise NotImplementedError

    def plan(self) -> Act:
        """Loaded and attached ahead but off, switched on by the act, removed with its pins by the undo."""
        words = (*self.words(), *self.amounts())
        return Act(
            warm=(Command(argv=(GUEST, "bpf", "load", self.id, self.object, *words)),),
            apply=(Command(argv=(GUEST, "bpf", "apply", self.id, self.object, *words)),),
            undo=(Command(argv=(GUEST, "bpf", "clear", self.id)),),
            read=(Command(argv=(GUEST, "bpf", "show", self.id, self.object, *words), name="bpf"),),
        )

    def change_amounts(self, to: Programs) -> tuple[Command, ...] | None:
        """One write to the configuration, when nothing else differs."""
        if self.words() != to.words() or type(self) is not type(to):
            return None
        return (Command(argv=(GUEST, "bpf", "change", self.id, *to.amounts())),)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The links live, and the configuration that the kernel holds is the one that was asked for, word by word."""
        was, now = mapping(before, "bpf"), mapping(during, "bpf")
        asked = dict(word.split("=", 1) for word in (*self.words(), *self.amounts()))
        return (
            was.get("on") is False
            and now.get("on") is True
            and self.programs() <= set(texts(now.get("links")))
            and now.get("config") == asked
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """By the program's own count since it was switched on."""
        return max(0, numbers(mapping(after, "bpf").get("totals")).get("acted", 0))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """No link and no configuration is left."""
        now = mapping(undone, "bpf")
        return now.get("links") == [] and now.get("config") == {} and now.get("on") is False

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Hits by process, and what could not be counted."""
        told = mapping(after, "bpf")
        hits = mappings(told.get("hits"))
        said = [hit(one) for one in hits[:24]]
        if len(hits) > 24:
            said.append(f"{len(hits) - 24} more such counts are in the reading")
        if lost := numbers(told.get("totals")).get("lost"):
            said.append(f"{lost} times the table of processes was full: these are in the total alone")
        return tuple(said)


def hit(told: dict[str, Any]) -> str:
    """One count of hits, in words."""
    err = told.get("errno")
    what = "let pass" if not err else "hit" if err == "hit" else f"answered {err}"
    return f"{told.get('comm')}[{told.get('pid')}]: {told.get('call')} {what} {told.get('count')} times"


class Errnos(Programs):
    """Calls come back with an errno."""

    errno: Errno
    """What they come back with: any name of errno(3), for example EACCES, EIO, ENOSPC, ENOMEM, EINTR, EMFILE."""

    @property
    def object(self) -> str:
        """The programs in the security hooks."""
        return "errno"

    def amounts(self) -> tuple[str, ...]:
        """The errno may change as well."""
        return (f"errno={self.errno}", *super().amounts())


def hooks(names: tuple[str, ...], by: str) -> set[str]:
    """The programs for these groups, and those that follow the children of a set of processes."""
    return {*hooks_of(names), *(DESCENT if by in ("main", "pid", "name", "port", "user") else ())}


def target_words(target: MaybeTarget | Target) -> tuple[str, ...]:
    """`by` and `what`, nothing for everybody."""
    if isinstance(target, MaybeTarget) and not target.targeted:
        return ()
    by, what = target.target
    return (f"by={by}", f"what={what}")
