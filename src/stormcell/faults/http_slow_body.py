"""`http.slow-body`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._redirect import NAT
from stormcell.faults._relay import Relayed
from stormcell.spec.units import Size, size_text


class HttpSlowBody(Relayed):
    """Answers trickle: the server sends as ever, the client gets so many bytes a second."""

    kind = "http.slow-body"
    needs = NAT
    counts = "pieces of answers that were given on slowly"
    proves = "the pieces that the relay gave on slowly, each counted as it left, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {"kind": "http.slow-body", "remote_port": 8080, "rate": "1KiB"}

    rate: Size
    """Bytes a second for each connection, 1B to 1GiB."""

    @model_validator(mode="after")
    def _sensible(self) -> HttpSlowBody:
        if not 1 <= self.rate <= 1 << 30:
            raise ValueError(f"a rate of {size_text(self.rate)} a second is out of range; it is between 1B and 1GiB")
        return self

    @property
    def does(self) -> str:
        """Trickle."""
        return "slow-body"

    def amounts(self) -> dict[str, Any]:
        """Bytes a second."""
        return {"rate": self.rate}
