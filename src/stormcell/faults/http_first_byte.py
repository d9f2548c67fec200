"""`http.first-byte`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import shown
from stormcell.faults._redirect import NAT
from stormcell.faults._relay import Relayed
from stormcell.spec.units import Duration


class HttpFirstByte(Relayed):
    """Connections are accepted and requests arrive, but the first byte of each answer comes late."""

    kind = "http.first-byte"
    needs = NAT
    counts = "answers whose first byte was held back"
    proves = (
        "the answers that the relay held, with the least and the longest time, and the counters of the redirections"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "http.first-byte", "remote_port": 8080, "delay": "2s"}
    drawn = "answers"

    delay: Duration
    """How much later than the server sent it, 1ms to 10m."""
    jitter: Duration = 0.0
    """The delay plus or minus up to this, evenly spread."""

    @model_validator(mode="after")
    def _sensible(self) -> HttpFirstByte:
        if not 0.001 <= self.delay <= 600:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is between 1ms and 10m")
        if self.jitter > self.delay:
            raise ValueError(f"the jitter ({shown(self.jitter)}) is larger than the delay ({shown(self.delay)})")
        return self

    @property
    def does(self) -> str:
        """Wait."""
        return "first-byte"

    def amounts(self) -> dict[str, Any]:
        """Seconds."""
        return {"delay": self.delay, "jitter": self.jitter}

    def cannot_know(self) -> tuple[str, ...]:
        """What an answer is."""
        return (
            *super().cannot_know(),
            "an answer is whatever the server sends after the client has sent something: under TLS each turn of the "
            "handshake is one too, and a greeting that nobody asked for as well",
        )
