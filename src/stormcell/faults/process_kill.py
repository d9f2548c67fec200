"""`process.kill`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from stormcell.faults._fields import Documented, ServiceName, one_of
from stormcell.faults._reading import mapping, mappings
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading


def _no_path(name: str) -> str:
    if not name or "/" in name or "\0" in name or not name.isprintable() or name.startswith("-"):
        raise ValueError(f"'{name}' is no name of a program; write its command name, for example redis-server")
    return name


class ProcessKill(Documented):
    """Processes get a signal and end, without the chance to tidy up when it is KILL."""

    kind = "process.kill"
    needs = Needs()
    counts = "processes that were signalled and are gone"
    proves = "the victims by pid and start time, written down before the signal, not found again after it"
    example: ClassVar[dict[str, Any]] = {"kind": "process.kill", "service": "postgresql", "signal": "KILL"}

    service: ServiceName | None = None
    """A service of the template. One of `service`, `name` and `pid`."""
    name: Annotated[str, AfterValidator(_no_path)] | None = None
    """Every process with this command name, or this base name of its argv[0]. Never init or the agent."""
    pid: Annotated[int, Field(strict=True, ge=1, le=4_194_304)] | None = None
    """This process. The kernel ignores signals to process 1 that it does not handle: such a run is void."""
    processes: Literal["all", "main"] = "all"
    """Of a service: all its processes, or only the main one."""
    signal: Literal["KILL", "TERM", "INT", "QUIT", "HUP", "ABRT", "SEGV"] = "KILL"
    """A signal that ends what does not handle it."""

    @model_validator(mode="after")
    def _one_target(self) -> ProcessKill:
        one_of(service=self.service, name=self.name, pid=self.pid)
        if self.processes == "main" and self.service is None:
            raise ValueError("'processes: main' is about a service; name one")
        return self

    @property
    def target(self) -> tuple[str, str]:
        """How the victims are found, and which."""
        if self.service is not None:
            return ("main" if self.processes == "main" else "service", self.service)
        return ("name", self.name) if self.name is not None else ("pid", str(self.pid))

    def plan(self) -> Act:
        """There is nothing to undo: a supervisor may start the victims anew. Only our own note of them is removed."""
        return Act(
            apply=(Command(argv=(GUEST, "kill", "send", self.kind, self.signal, *self.target)),),
            undo=(Command(argv=(GUEST, "kill", "forget", self.kind)),),
            read=(Command(argv=(GUEST, "kill", "show", self.kind, *self.target), name="victims"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The signal was sent to all who were found. Whether they heeded it is what `acted` says."""
        sent = _victims(during, "sent")
        return not _victims(before, "sent") and bool(sent) and any(victim.get("sent") for victim in sent)

    def acted(self, during: Reading, after: Reading) -> int:
        """Signalled, and gone."""
        alive = mapping(after, "victims").get("alive")
        if not isinstance(alive, list):
            return 0
        return sum(bool(v.get("sent")) and v.get("pid") not in alive for v in _victims(after, "sent"))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our note is gone; nothing else of the fault can be left."""
        return bool(mapping(undone, "victims")) and not _victims(undone, "sent")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who lives on, who was started anew."""
        if after is None:
            return ()
        sent = _victims(after, "sent")
        alive = mapping(after, "victims").get("alive")
        alive = alive if isinstance(alive, list) else []
        said = [f"signal {self.signal} was sent to process {_who(v)}, which is still there" for v in sent
                if v.get("pid") in alive]  # fmt: skip
        if 1 in alive:
            said.append(
                "the kernel ignores signals that init does not handle, and KILL always, when they come from inside"
            )
        known = {(v.get("pid"), v.get("start_time")) for v in sent}
        new = [v for v in _victims(after, "now") if (v.get("pid"), v.get("start_time")) not in known]
        said += [f"process {_who(v)} is there anew" for v in new[:8]]
        return (*said, f"{len(new) - 8} more processes are there anew") if len(new) > 8 else tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Restart."""
        return ("the fault is not undone: whether the processes come back is the work of whoever supervises them",)


def _victims(reading: Reading, which: str) -> list[dict[str, Any]]:
    return mappings(mapping(reading, "victims").get(which))


def _who(victim: dict[str, Any]) -> str:
    return f"{victim.get('pid')} ({victim.get('comm')})"
