"""One fault at a time on what only one can have: the room of a file system, a device's table, a limit of a cgroup.

Two paths may lead to one file system, and a service's name and a path to one cgroup; that is known in the guest alone.
So a tool claims what it found before it touches it, and the second one is refused, with the first one's name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

from stormcell.guest.tools import common


def take(fault: str, things: Iterable[str], what: str, done: str) -> None:
    """Claim every one of `things` for `fault`. Raises ValueError: `what` is already `done` by another one.

    What it has claimed already stays its own. All that are claimed are given back by `drop`, also after a refusal.
    """
    for thing in things:
        aside = _noted(fault, thing)
        try:
            os.link(aside, _path(thing))  # whole, or not at all
        except FileExistsError:
            holder = _read(_path(thing)).get("fault")
            if holder != fault:
                raise ValueError(f"{what} is already {done} by the fault '{holder}'") from None
        finally:
            os.unlink(aside)


def _noted(fault: str, thing: str) -> str:
    """A file beside the claims, with one written in it."""
    aside = os.path.join(_folder(), f".{os.getpid()}")
    while True:
        os.makedirs(_folder(), mode=0o700, exist_ok=True)
        try:
            with open(aside, "w", encoding="utf-8") as file:
                json.dump({"fault": fault, "thing": thing}, file)
            return aside
        except FileNotFoundError:
            continue  # the folder went with somebody's last claim


def drop(fault: str) -> None:
    """Give back all that `fault` has claimed; it need not be anything."""
    if not os.path.isdir(_folder()):
        return
    for name in os.listdir(_folder()):
        path = os.path.join(_folder(), name)
        if not name.startswith(".") and _read(path).get("fault") == fault:
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(_folder())  # nothing of ours stays behind the last one


def _folder() -> str:
    return common.mark_path("claims")


def _path(thing: str) -> str:
    return os.path.join(_folder(), hashlib.sha256(thing.encode()).hexdigest())


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
