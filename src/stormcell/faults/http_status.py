"""`http.status`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._redirect import NAT
from stormcell.faults._relay import Relayed


class HttpStatus(Relayed):
    """Plain HTTP requests are answered with an error and never reach the server."""

    kind = "http.status"
    needs = NAT
    counts = "requests that were answered with the status"
    proves = "the answers that the relay gave in place of the server, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {"kind": "http.status", "remote_port": 8080, "status": 503}

    status: Annotated[int, Field(strict=True, ge=200, le=599)] = 503
    """The status code, 200 to 599."""

    @property
    def does(self) -> str:
        """Answer."""
        return "status"

    def amounts(self) -> dict[str, Any]:
        """The code."""
        return {"status": self.status}

    def cannot_know(self) -> tuple[str, ...]:
        """What is not HTTP/1."""
        return (
            *super().cannot_know(),
            "a connection that does not begin with an HTTP/1 request (TLS, HTTP/2) passes, and a connection that is "
            "drawn not to fail passes with all its requests",
        )
