"""Measuring from inside of a node: a thread of its own goes there and does not come back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from stormcell.guest import nodes
from stormcell.guest.probes.attempts import Attempt

_T = TypeVar("_T")


def attempts_in(node: str | None, attempt: Attempt) -> Attempt:
    """The same attempt, made in that node. Each attempt has a thread of its own anyway."""
    if node is None:
        return attempt

    def once(number: int, deadline: float) -> int | str:
        nodes.enter(node)
        return attempt(number, deadline)

    return once


def called_in(node: str | None, call: Callable[[], _T]) -> _T:
    """What `call` returns there. Raises OSError when there is no such node."""
    if node is None:
        return call()
    found: list[_T] = []
    failed: list[OSError] = []

    def work() -> None:
        try:
            nodes.enter(node)
            found.append(call())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
