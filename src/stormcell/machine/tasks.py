"""Work that is not left half-way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(work: Awaitable[T]) -> T:
    """Await `work` also when this task is cancelled meanwhile, then let the cancellation through: for clean-ups, and
    for threads whose memory or process must not go while they use it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:
            break  # the work's own; raised below
    if cancelled and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()
