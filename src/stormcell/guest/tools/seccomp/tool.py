"""System calls fail for what is started under the fault: a service anew, or a command.

A filter cannot be put on a process that runs (seccomp(2): on oneself alone), and not be taken off. So a service is
started anew under it, and anew without it; a command lives under it to its end, and after the undo every call goes on.
"""

from __future__ import annotations

import os
from typing import Any

from stormcell.guest import nodes, seccomp
from stormcell.guest.tools import background, common, restart
from stormcell.guest.tools.seccomp.notifier import Notifier


def make(mark: str, service: str, start: str, *words: str) -> dict[str, Any]:
    """Take newcomers; a service that is named (`-`: none) is stopped and started under the filter.

    It starts undisturbed, or by `start` of `1` already under the fault. Raises ValueError, OSError.
    """
    config = dict(word.split("=", 1) for word in words)
    if service != "-":
        service = nodes.service_key(service, nodes.current())
        restart.exists(service)
        if os.path.lexists(seccomp.of_service(service)):
            raise ValueError(f"service {service} lives under such a fault already")
    os.makedirs(seccomp.FOLDER, mode=0o700, exist_ok=True)
    common.put_mark(_mark(mark), {"service": service})
    notifier = Notifier(seccomp.address(mark), config)
    background.start(mark, notifier.run, notifier.answer)
    if service != "-":
        if start == "1":
            background.ask(mark, {"on": True})
        os.symlink(seccomp.address(mark), seccomp.of_service(service))
        restart.again(service)
    background.ask(mark, {"on": True})
    return show(mark)


def change(mark: str, *words: str) -> None:
    """Other amounts, in place."""
    if background.ask(mark, {"set": dict(word.split("=", 1) for word in words)}) is None:
        raise LookupError("the process of this fault does not run")


def unmake(mark: str) -> dict[str, Any]:
    """No call fails any more, and a service lives without the filter. Harmless a second time."""
    known = common.get_mark(_mark(mark))
    if known is None:
        return show(mark)
    background.ask(mark, {"on": False})
    service = known["service"]
    if service != "-" and os.path.islink(seccomp.of_service(service)):
        os.unlink(seccomp.of_service(service))
        restart.again(service)
    background.ask(mark, {"retire": True})
    background.stop(mark)
    if os.path.lexists(seccomp.address(mark)):
        os.unlink(seccomp.address(mark))
    common.drop_mark(_mark(mark))
    return show(mark)


def show(mark: str) -> dict[str, Any]:
    """Who lives under the filter, what was answered, by the process that answers."""
    known = common.get_mark(_mark(mark))
    if known is None:
        left = background.is_there(mark) or os.path.lexists(seccomp.address(mark))
        return {"made": False, "left": left}
    return {"made": True, "service": known["service"], "answers": background.ask(mark, {})}


def run(mark: str, *argv: str) -> None:
    """Become `argv` under the filter: for loads and probes of an experiment."""
    if not os.path.exists(seccomp.address(mark)):
        raise LookupError(f"there is no fault '{mark}' to live under")
    seccomp.join(seccomp.address(mark))
    os.execvp(argv[0], argv)


def _mark(mark: str) -> str:
    return f"seccomp-{mark}"


def main(argv: list[str]) -> int:
    """`seccomp make|change|unmake|show|run`."""
    verbs: dict[str, common.Verb] = {"make": make, "change": change, "unmake": unmake, "show": show, "run": run}
    return common.serve("seccomp", verbs, argv)
