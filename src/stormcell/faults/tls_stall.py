"""`tls.stall`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import shown
from stormcell.faults._redirect import NAT
from stormcell.faults._relay import NamedTls
from stormcell.spec.units import Duration


class TlsStall(NamedTls):
    """TLS handshakes stall: the connection stands, the client says hello, and no answer comes, or it comes late."""

    kind = "tls.stall"
    needs = NAT
    counts = "handshakes that stalled"
    proves = (
        "the client hellos that the relay withheld an answer from, how their clients took it, and the counters of "
        "the redirections"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "tls.stall", "remote_port": 443}

    delay: Duration | None = None
    """When the server's answer comes after all, 1ms to 10m; without it: never."""

    @model_validator(mode="after")
    def _sensible(self) -> TlsStall:
        if self.delay is not None and not 0.001 <= self.delay <= 600:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is between 1ms and 10m")
        return self

    @property
    def does(self) -> str:
        """Stall."""
        return "stall"

    def amounts(self) -> dict[str, Any]:
        """Whom, and how long."""
        return {"names": list(self.names), "delay": self.delay}

    def cannot_know(self) -> tuple[str, ...]:
        """What is no TLS."""
        return (
            *super().cannot_know(),
            "a connection that does not begin with a TLS hello passes, also one that turns to TLS later (STARTTLS)",
        )
