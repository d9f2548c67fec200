"""One TCP handshake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stormcell.guest.measure import CONNECTED
from stormcell.guest.probes.attempts import Attempt
from stormcell.guest.probes.connecting import connect, name_of


def attempt(spec: Mapping[str, Any]) -> Attempt:
    """Connect to `spec["address"]`, then close."""
    host, _, port = spec["address"].rpartition(":")

    def once(_number: int, deadline: float) -> str:
        try:
            connect(host.strip("[]"), int(port), deadline).close()
        except OSError as error:
            return name_of(error)
        return CONNECTED

    return once
