"""Work in flight keeps a sandbox alive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from stormcell.sandbox import lease
from stormcell.spec.errors import SandboxNotFound


class Activity:
    """Renews one lease at the start and the end of each piece of work, and at a quarter of the ttl while any lasts."""

    def __init__(self, folder: Path, ttl_seconds: float) -> None:
        self._folder = folder
        self._ttl = ttl_seconds
        self._in_flight = 0
        self._renewing: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """A whole ttl from now. Raises SandboxNotFound when the sandbox is gone or being removed."""
        lease.renew(self._folder, self._ttl)

    @contextlib.asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Around anything that uses the sandbox."""
        self.touch()
        self._in_flight += 1
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._renewing.cancel()
                self._renewing = None
            with contextlib.suppress(SandboxNotFound):
                self.touch()

    async def _renew(self) -> None:
        with contextlib.suppress(SandboxNotFound):
            while True:
                await asyncio.sleep(self._ttl / 4)
                self.touch()
