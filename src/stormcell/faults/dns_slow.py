"""`dns.slow`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._dns import DnsProxied
from stormcell.faults._fields import shown
from stormcell.faults._reading import mapping
from stormcell.faults._redirect import NAT
from stormcell.spec.fault import Reading
from stormcell.spec.units import Duration


class DnsSlow(DnsProxied):
    """Answers to queries for some names arrive late; all others arrive as before."""

    kind = "dns.slow"
    needs = NAT
    counts = "answers that arrived late"
    proves = "the proxy's late answers by name with the time each was held, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {"kind": "dns.slow", "names": "*.example.org", "delay": "3s"}

    delay: Duration
    """How much later than the server's answer, 1ms to 1m. A resolver mostly asks again after 5 s."""
    jitter: Duration = 0.0
    """Each answer is held for the delay plus or minus up to this, evenly spread."""

    @model_validator(mode="after")
    def _sensible(self) -> DnsSlow:
        if not 0.001 <= self.delay <= 60:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is between 1ms and 1m")
        if self.jitter > self.delay:
            raise ValueError(f"the jitter ({shown(self.jitter)}) is larger than the delay ({shown(self.delay)})")
        return self

    @property
    def does(self) -> Literal["slow"]:
        """Wait."""
        return "slow"

    def amounts(self) -> dict[str, Any]:
        """Seconds."""
        return {"delay": self.delay, "jitter": self.jitter}

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """With the time that answers were held."""
        told = mapping(after, "proxy")
        least, most = told.get("held_least"), told.get("held_most")
        held = isinstance(least, float) and isinstance(most, float) and told.get("held")
        said = [f"answers were held between {least:.3f} and {most:.3f} s"] if held else []
        return (*said, *super().notes(before, during, after))

    def cannot_know(self) -> tuple[str, ...]:
        """Only answers can be late."""
        return (*super().cannot_know(), "a query that the server does not answer is not made later than never")
