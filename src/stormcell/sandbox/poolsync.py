"""Pool: the twin of AsyncPool for those who call without `await`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from stormcell.sandbox.bridge import Bridge
from stormcell.sandbox.link import to_the_end
from stormcell.sandbox.pool import AsyncPool
from stormcell.sandbox.ssandbox import Sandbox
from stormcell.sandbox.templates import OnProgress
from stormcell.template.model import Template


class Pool:
    """Sandboxes of one template, ready ahead. What AsyncPool says holds here too, for all threads of this process."""

    def __init__(
        self,
        template: str | Template = "base",
        *,
        size: int = 4,
        processes: int = 0,
        memory: int | None = None,
        progress: OnProgress | None = None,
    ) -> None:
        self._twin = AsyncPool(template, size=size, processes=processes, memory=memory, progress=progress)

    @property
    def short(self) -> str:
        """See AsyncPool.short."""
        return self._twin.short

    @property
    def waiting(self) -> tuple[int, int]:
        """See AsyncPool.waiting."""
        return self._twin.waiting

    def open(self) -> Self:
        """See AsyncPool.open."""
        Bridge.current().run(self._twin.open())
        return self

    def filled(self, timeout: float = 120.0) -> bool:
        """See AsyncPool.filled."""
        return Bridge.current().run(self._twin.filled(timeout))

    def create(
        self,
        *,
        ttl_seconds: float = 300,
        metadata: Mapping[str, str] | None = None,
        open_ports: Mapping[str, int] | None = None,
        raw: bool = False,
        detached: bool = False,
    ) -> Sandbox:
        """See AsyncPool.create."""
        return Sandbox(
            Bridge.current().run(
                self._twin.create(
                    ttl_seconds=ttl_seconds, metadata=metadata, open_ports=open_ports, raw=raw, detached=detached
                )
            )
        )

    def close(self) -> None:
        """See AsyncPool.close."""
        Bridge.current().run(to_the_end(self._twin.close()))

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()
