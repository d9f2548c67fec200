"""Send a signal to the victims of a fault, remember who they were, and say later who is gone."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

from stormcell.guest.tools import common, processes, targets
from stormcell.guest.tools.processes import Process

WAIT_S = 1.0


def send(mark: str, signal_name: str, by: str, what: str) -> dict[str, Any]:
    """Signal the victims that `by` and `what` name (targets.find). Waits a moment for them to go.

    Raises Nobody when there is no victim: nothing was done then.
    """
    number = signal.Signals[f"SIG{signal_name}"]
    victims = targets.find(by, what)
    if not victims:
        raise common.Nobody(f"there is no process of {by} '{what}' to signal")
    handles = [(victim, _open(victim)) for victim in victims]
    sent: list[dict[str, Any]] = [{**victim.as_dict(), "sent": False} for victim in victims]
    common.put_mark(mark, sent)
    for entry, (_, handle) in zip(sent, handles, strict=True):
        if handle is not None:
            try:
                signal.pidfd_send_signal(handle, number)
                entry["sent"] = True
            except ProcessLookupError:
                entry["error"] = "it ended by itself before"
    common.put_mark(mark, sent)
    _await([handle for _, handle in handles if handle is not None])
    return {"sent": sent}


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """Who was signalled, who of these is still there, and who can be found by that name now."""
    sent = common.get_mark(mark) or []
    alive = [entry["pid"] for entry in sent if _same(entry)]
    return {"sent": sent, "alive": alive, "now": [process.as_dict() for process in targets.find(by, what)]}


def _open(victim: Process) -> int | None:
    """A pidfd of that very process: opened by pid, then the start time is compared."""
    try:
        handle = os.pidfd_open(victim.pid)
    except ProcessLookupError:
        return None
    now = processes.look(victim.pid)
    if now is None or now.start_time != victim.start_time:
        os.close(handle)
        return None
    return handle


def _same(entry: dict[str, Any]) -> bool:
    now = processes.look(entry["pid"])
    return now is not None and now.start_time == entry["start_time"]


def _await(handles: list[int]) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left, deadline = set(handles), time.monotonic() + WAIT_S
    while left and (rest := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(rest * 1000):
            poll.unregister(handle)
            left.discard(handle)


def forget(mark: str) -> None:
    """Nothing is undone: a killed process is not brought back by us."""
    common.drop_mark(mark)


def main(argv: list[str]) -> int:
    """`kill send|show|forget`."""
    return common.serve("kill", {"send": send, "show": show, "forget": forget}, argv)
