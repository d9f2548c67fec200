"""Make processes hang: by SIGSTOP, each by itself, or by the freezer of their cgroup; and let them go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, groups, processes, targets
from stormcell.guest.tools.processes import Process

_ROUNDS = 10
_WAIT_S = 2.0
_STOPPED = "Tt"


def halt(mark: str, how: str, by: str, what: str) -> dict[str, Any]:
    """Stop the target. Raises LookupError when there is no process of it."""
    return _freeze(mark, by, what) if how == "freeze" else _signal(mark, by, what)


def _signal(mark: str, by: str, what: str) -> dict[str, Any]:
    known: dict[str, Any] = {"how": "signal", "stopped": []}
    done: set[tuple[int, int]] = set()
    for _ in range(_ROUNDS):  # one that is not yet stopped may fork meanwhile
        found = [p for p in targets.find(by, what) if (p.pid, p.start_time) not in done]
        if not found:
            break
        known["stopped"] += [{**process.as_dict(), "was": process.state} for process in found]
        common.put_mark(mark, known)
        for process in found:
            send(process.as_dict(), signal.SIGSTOP)
            done.add((process.pid, process.start_time))
    if not done:
        raise LookupError(f"there is no process of {by} '{what}' to stop")
    _until(lambda: all(_state(entry) in (*_STOPPED, "") for entry in known["stopped"]))
    return known


def _freeze(mark: str, by: str, what: str) -> dict[str, Any]:
    folder = groups.in_place(by, what)
    known: dict[str, Any] = {"how": "freeze", "made": folder is None, "moved": []}
    if folder is None:
        folder = f"{groups.OURS}/{mark}"
        found = groups.victims(by, what)
        known |= {"folder": folder, "stopped": _listed(found)}
        common.put_mark(mark, known)

        def remember(moved: list[dict[str, Any]]) -> None:
            known["moved"] = moved
            common.put_mark(mark, known)

        groups.move_in(folder, found, lambda: targets.find(by, what), remember)
    else:
        groups.existing(by, what)
        found = targets.find(by, what)
        if not found:
            raise LookupError(f"there is no process of {by} '{what}' to stop")
        if (common.read_text(f"{folder}/cgroup.freeze") or "").strip() == "1":
            raise ValueError(f"{folder} is frozen already")
        known |= {"folder": folder, "stopped": _listed(found)}
        common.put_mark(mark, known)
    write_file(f"{folder}/cgroup.freeze", "1")
    _until(lambda: _frozen(folder))
    return known


def release(mark: str) -> None:
    """Let go on whom we stopped: not one that was stopped before, nor one of the same pid. May be said twice."""
    known = common.get_mark(mark)
    if not known:
        return
    if known["how"] == "freeze":
        folder = known["folder"]
        if os.path.isdir(folder):
            write_file(f"{folder}/cgroup.freeze", "0")
            _until(lambda: not _frozen(folder))
        if known["made"]:
            groups.move_out(folder, known["moved"])
    else:
        for entry in known["stopped"]:
            if entry["was"] not in _STOPPED:
                send(entry, signal.SIGCONT)
    common.drop_mark(mark)


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """Who was stopped, in what state each of them is and how much CPU time it has used, and who is found now."""
    known = common.get_mark(mark) or {}
    folder = known.get("folder")
    return {
        "how": known.get("how"),
        "folder": folder,
        "frozen": _frozen(folder) if folder else None,
        "stopped": [{**e, "state": _state(e), "ticks": _ticks(e), "in": groups.of(e["pid"])}
                    for e in known.get("stopped", []) if groups.same(e)],
        "targets": known.get("stopped", []),
        "now": [{**process.as_dict(), "state": process.state} for process in targets.find(by, what)][:64],
    }  # fmt: skip


def send(entry: Mapping[str, Any], number: signal.Signals) -> bool:
    """Signal that very process: opened by pid, then its start time is compared. False when it is gone."""
    try:
        handle = os.pidfd_open(entry["pid"])
    except ProcessLookupError:
        return False
    try:
        if not groups.same(entry):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def _listed(found: list[Process]) -> list[dict[str, Any]]:
    return [{**process.as_dict(), "was": process.state} for process in found]


def _until(met: Any) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not met() and time.monotonic() < deadline:
        time.sleep(0.003)


def _frozen(folder: str) -> bool:
    return "frozen 1" in (common.read_text(f"{folder}/cgroup.events") or "")


def _state(entry: Mapping[str, Any]) -> str:
    now = processes.look(entry["pid"])
    return now.state if now is not None and now.start_time == entry["start_time"] else ""


def _ticks(entry: Mapping[str, Any]) -> int:
    """CPU time of all its threads, in clock ticks: fields 14 and 15 of /proc/PID/stat."""
    fields = (common.read_text(f"/proc/{entry['pid']}/stat") or ")").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def main(argv: list[str]) -> int:
    """`stop halt|release|show`."""
    return common.serve("stop", {"halt": halt, "release": release, "show": show}, argv)
