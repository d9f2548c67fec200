"""`http.abort`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._redirect import NAT
from stormcell.faults._relay import Relayed
from stormcell.spec.units import Size


class HttpAbort(Relayed):
    """Connections break in the middle of an answer: after so many bytes of it the client gets a reset."""

    kind = "http.abort"
    needs = NAT
    counts = "connections that were reset"
    proves = "the resets that the relay sent, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {"kind": "http.abort", "remote_port": 8080, "after": "100B"}

    after: Size = 0
    """Bytes that the server may send on a connection before it breaks. 0: the connection breaks at the first one."""

    @property
    def does(self) -> str:
        """Break."""
        return "abort"

    def amounts(self) -> dict[str, Any]:
        """Bytes."""
        return {"after": self.after}
