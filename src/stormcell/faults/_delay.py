"""Faults that make system calls take longer: a program in the kernel chooses, a tracer holds the thread."""

from __future__ import annotations

from pydantic import model_validator

from stormcell.faults._bpf import DESCENT, Programs
from stormcell.faults._reading import mapping, numbers
from stormcell.guest.tools.bpf.delays import GROUPS, NUMBER
from stormcell.spec.fault import GUEST, Act, Command, Reading
from stormcell.spec.units import Duration, duration_text

SHORTEST, LONGEST = 1e-3, 600.0


def explained(groups: tuple[str, ...]) -> str:
    """What each group covers, for the docs."""
    said = (f"`{name}` ({GROUPS[NUMBER[name]].covers})" for name in groups)
    return f"One group or a list of them. {'. '.join(said)}."


class Delays(Programs):
    """Calls take longer."""

    delay: Duration
    """How long a call takes on top, at its end: 1ms to 10m."""
    jitter: Duration = 0.0
    """The delay is drawn between this much less and this much more."""

    @model_validator(mode="after")
    def _in_range(self) -> Delays:
        if not SHORTEST <= self.delay <= LONGEST:
            raise ValueError(f"a delay of {duration_text(self.delay)} is out of range; it is between 1ms and 10m")
        if self.jitter > self.delay:
            raise ValueError(
                f"the jitter ({duration_text(self.jitter)}) is larger than the delay ({duration_text(self.delay)})"
            )
        return self

    @property
    def object(self) -> str:
        """The program at the end of system calls."""
        return "delay"

    def groups(self) -> tuple[str, ...]:
        """Which calls."""
        raise NotImplementedError

    def by(self) -> str:
        """How the target is found."""
        raise NotImplementedError

    def programs(self) -> set[str]:
        """One for all calls, and those that follow the children of a set of processes."""
        return {"sys_exit", *(DESCENT if self.by() in ("main", "pid", "name", "port", "user") else ())}

    def plan(self) -> Act:
        """Loaded ahead; the act starts the tracer and switches on."""
        words = (*self.words(), *self.amounts())
        return Act(
            warm=(Command(argv=(GUEST, "bpf", "load", self.id, self.object, *words)),),
            apply=(Command(argv=(GUEST, "delay", "apply", self.id, *self._seconds(), *words)),),
            undo=(Command(argv=(GUEST, "delay", "clear", self.id)),),
            read=(Command(argv=(GUEST, "delay", "show", self.id, *words), name="bpf"),),
        )

    def _seconds(self) -> tuple[str, str]:
        return (f"{self.delay:.9g}", f"{self.jitter:.9g}")

    def change_delays(self, to: Delays) -> tuple[Command, ...] | None:
        """One write to the configuration and one word to the tracer, when nothing else differs."""
        if self.words() != to.words() or type(self) is not type(to):
            return None
        return (Command(argv=(GUEST, "delay", "change", self.id, *to._seconds(), *to.amounts())),)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """As for every program; its table of system calls and the tracer's amounts as well."""
        told = mapping(during, "bpf")
        tracer = told.get("tracer")
        asked = sorted(number for name in self.groups() for number in GROUPS[NUMBER[name]].numbers)
        return (
            super().in_force(before, during)
            and told.get("numbers") == asked
            and isinstance(tracer, dict)
            and (tracer.get("delay"), tracer.get("jitter")) == tuple(map(float, self._seconds()))
            and tracer.get("ready") is True
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Calls whose thread was held and let go, by the tracer."""
        return max(0, numbers(mapping(after, "bpf").get("tracer")).get("held", 0))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The program and the tracer are gone."""
        told = mapping(undone, "bpf")
        return super().clean(before, undone) and told.get("tracer") is None and told.get("left") is False

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """How many, how long in all, and which could not be held."""
        told = mapping(after, "bpf")
        tracer = told.get("tracer")
        said = list(super().notes(before, during, after))
        if lost := numbers(told.get("totals")).get("lost"):
            said[-1:] = [f"{lost} calls were not delayed: of threads that block SIGURG or are not traced (yet)"]
        if isinstance(tracer, dict) and isinstance(tracer.get("waited"), int | float):
            said.append(f"{tracer.get('held')} calls were held, {duration_text(round(tracer['waited'], 3))} in all")
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Where the wait lies, and what is not met."""
        return (
            "the call is done before its thread waits: what it did is seen by others at once",
            "calls through io_uring, of 32-bit programs, of threads that block SIGURG or have a debugger are not held",
            "a process that joins the target other than as its child (a service started anew) is met after 0.2 s",
        )
