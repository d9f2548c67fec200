"""`process.signal`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stormcell.faults._holders import gone, standing
from stormcell.faults._reading import mapping, numbers
from stormcell.faults._target import Target, listed, restarts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import PER_SECOND, Frequency, render


class ProcessSignal(Target):
    """Processes get a signal again and again: calls are interrupted, handlers run, configurations are read anew.

    A signal that a process neither handles nor ignores does to it what it always does; most end it.
    """

    kind = "process.signal"
    needs = Needs(paths=("/sys/kernel/tracing/events/signal/signal_generate",))
    counts = "signals that the kernel took for delivery to a target"
    proves = "a histogram of the tracepoint signal_generate, by sender, target and result"
    example: ClassVar[dict[str, Any]] = {
        "kind": "process.signal", "service": "postgresql", "signal": "HUP", "rate": "20/s",
    }  # fmt: skip

    signal: Literal["HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TERM", "CHLD", "CONT", "URG", "WINCH", "IO"]
    """Its name without SIG."""
    rate: Frequency
    """To each process: 1/m to 2000/s."""
    count: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    """How many to each process in all; until the undo when it is not given."""

    @model_validator(mode="after")
    def _sensible(self) -> ProcessSignal:
        if not 1 / 60 <= self.rate <= 2000:
            raise ValueError(f"{render(self.rate, PER_SECOND)} is out of range; a rate is between 1/m and 2000/s")
        return self

    def plan(self) -> Act:
        """The sender holds each target by a pidfd, so another process with its pid is never met."""
        work = (self.signal, f"{self.rate:.9g}", str(self.count or 0))
        return Act(
            apply=(Command(argv=(GUEST, "storm", "start", self.id, *work, *self.target)),),
            undo=(Command(argv=(GUEST, "storm", "stop", self.id)),),
            read=(Command(argv=(GUEST, "storm", "show", self.id, *self.target), name="storm"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The old sender ends, then the new one starts; the count begins anew."""
        if not isinstance(to, ProcessSignal) or self.target != to.target:
            return None
        plan = to.named(self.id, self.number).plan()
        return (*plan.undo, *plan.apply)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The sender stands, the kernel counts, and what is sent is what was asked for."""
        shown = mapping(during, "storm")
        asked = (self.signal, float(f"{self.rate:.9g}"), self.count or 0)
        told = (shown.get("signal"), shown.get("rate"), shown.get("count"))
        there = bool(standing(during, "storm", "sc-storm")) and shown.get("counting") is True
        return gone(before, "storm") and there and told == asked

    def acted(self, during: Reading, after: Reading) -> int:
        """Not those that were ignored, or that fell together with one that was still to be taken."""
        shown = mapping(after, "storm")
        aimed = {str(process.get("pid")) for process in listed(shown.get("targets"))}
        hits = shown.get("hits")
        return sum(
            max(0, numbers(results).get("delivered", 0))
            for pid, results in (hits.items() if isinstance(hits, dict) else ())
            if pid in aimed
        )

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The sender and the counter are gone."""
        return gone(undone, "storm") and mapping(undone, "storm").get("counting") is False

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Per process what became of the signals."""
        shown = mapping(after, "storm")
        hits = shown.get("hits")
        said = [
            f"to process {pid}: " + ", ".join(f"{number} {result}" for result, number in sorted(numbers(told).items()))
            for pid, told in (list(hits.items())[:8] if isinstance(hits, dict) else ())
        ]
        alive = shown.get("alive")
        ended = [p for p in listed(shown.get("targets")) if isinstance(alive, list) and p.get("pid") not in alive]
        said += [f"process {p.get('pid')} ({p.get('comm')}) ended under the signals" for p in ended[:8]]
        return (*said, *restarts(shown.get("targets"), shown.get("now"), covered=False))
