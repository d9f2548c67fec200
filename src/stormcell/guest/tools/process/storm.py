"""Send a signal to the targets again and again, and count in the kernel what became of each."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools import common, groups, histograms, holders, processes, targets

EVENT = "signal/signal_generate"
_RESULTS = {0: "delivered", 1: "ignored", 2: "pending", 3: "overflow", 4: "lost"}
"""enum of include/trace/events/signal.h. Pending: one of the same was not yet taken, and they become one."""
_LOOK_S = 0.25


def start(mark: str, signal_name: str, rate: str, count: str, by: str, what: str) -> dict[str, Any]:
    """`rate` signals a second to each process of the target, `count` in all to each (0: for ever)."""
    number = signal.Signals[f"SIG{signal_name}"]
    found = targets.find(by, what)
    if not found:
        raise LookupError(f"there is no process of {by} '{what}' to signal")
    entries = [process.as_dict() for process in found]

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        handles = {p: os.pidfd_open(entry["pid"]) for p, entry in enumerate(entries) if groups.same(entry)}
        handles = {p: handle for p, handle in handles.items() if groups.same(entries[p])}
        ready(None)
        began = looked = time.monotonic()
        sent = 0
        while handles and (sent < int(count) or not int(count)):
            now = time.monotonic()
            if now - looked > _LOOK_S:
                looked = now
                if not wanted():
                    return
            while sent < (now - began) * float(rate) + 1 and (sent < int(count) or not int(count)):
                sent += 1
                for place, handle in list(handles.items()):
                    try:
                        signal.pidfd_send_signal(handle, number)
                    except ProcessLookupError:
                        os.close(handles.pop(place))
            time.sleep(max(0.0, min(_LOOK_S, began + sent / float(rate) - time.monotonic())))
        while wanted():
            time.sleep(_LOOK_S)

    common.put_mark(mark, {"targets": entries})
    histograms.start(_counter(mark), EVENT, "common_pid,pid,result", f"sig == {int(number)}")
    known = {"targets": entries, "signal": signal_name, "rate": float(rate), "count": int(count)}
    known["begun"] = time.monotonic()
    holders.start(mark, known, f"{groups.PASSIVE}/{mark}", [("sc-storm", body)], None)
    return known


def stop(mark: str) -> None:
    """End it. May be said twice."""
    holders.stop(mark)
    histograms.stop(_counter(mark), EVENT)
    common.drop_mark(mark)


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """What became of our signals, by target."""
    known = common.get_mark(mark) or {}
    senders = {str(entry["pid"]) for entry in known.get("holders", [])}
    hits: dict[str, dict[str, int]] = {}
    counted = histograms.counted(_counter(mark), EVENT)
    for keys, number in counted or []:
        if keys.get("common_pid") in senders:
            result = _RESULTS.get(int(keys.get("result", "-1")), "unknown")
            to = hits.setdefault(keys.get("pid", ""), {})
            to[result] = to.get(result, 0) + number
    return {
        "at": time.monotonic(),
        "begun": known.get("begun"),
        "signal": known.get("signal"),
        "rate": known.get("rate"),
        "count": known.get("count"),
        "holders_in": known.get("holders_in"),
        "holders": holders.show(known),
        "counting": counted is not None,
        "hits": hits,
        "alive": [entry["pid"] for entry in known.get("targets", []) if groups.same(entry)],
        "targets": known.get("targets", []),
        "now": [process.as_dict() for process in _found(by, what)][:64],
    }


def _found(by: str, what: str) -> list[processes.Process]:
    return targets.find(by, what)


def _counter(mark: str) -> str:
    return f"sc-{mark}"


def main(argv: list[str]) -> int:
    """`storm start|stop|show`."""
    return common.serve("storm", {"start": start, "stop": stop, "show": show}, argv)
