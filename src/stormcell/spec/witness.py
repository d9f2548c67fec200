"""Who wants to hear of every run that this process concludes: a test report that names the runs of a failed test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Listener = Callable[[Any, Path], None]
"""Called with the Result and the run's folder, in the thread that ran it."""

_listeners: list[Listener] = []


@contextlib.contextmanager
def hearing(listener: Listener) -> Iterator[None]:
    """Within the block, in every thread."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(result: Any, folder: Path) -> None:
    """A run came to its end."""
    for listener in tuple(_listeners):
        listener(result, folder)
