"""Ctrl-C of a command that holds machines: it ends the work, however often it is pressed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from stormcell.cli.output import say

T = TypeVar("T")


def ended_once(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; at Ctrl-C (or SIGTERM, SIGHUP, which become one) cancel it and let it release what it holds.

    Raises KeyboardInterrupt behind that; from then on all three are ignored, so that what is known is told to the end.
    asyncio.run would break off the release at a second Ctrl-C.
    """
    task = asyncio.run(_ended(work))
    if task.cancelled():
        raise KeyboardInterrupt
    return task.result()


async def _ended(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.ensure_future(work)

    def interrupted() -> None:
        if task.cancelling():
            say("interrupted already; what had been started is being released")
        else:
            task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    await asyncio.wait({task})
    if task.cancelled():
        loop.remove_signal_handler(signal.SIGINT)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # python at its exit gives back the default of any other handler
    return task
