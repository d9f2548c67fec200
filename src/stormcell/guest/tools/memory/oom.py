"""Bring about an out-of-memory kill, in a cgroup or in the whole guest, with the victim that was asked for.

The stressor is the first victim (score 1000), an ordinary one (0), or none (-1000, and the targets are the first). It
looks after each piece whether the kernel has killed, and ends then: one kill is the fault, not a massacre.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, groups, holders, kernellog, processes, targets
from stormcell.guest.tools.memory import hold

_SCORES = {"stressor": 1000, "any": 0, "target": -1000}
_PROTECTED = -1000
_WAIT_S = 25.0
_PIECE, _SMALL = 2 << 20, 256 << 10
_NEAR = 24 << 20
_LIMITS = ("memory.max", "memory.swap.max")


def in_group(mark: str, by: str, what: str, victim: str, room: str) -> dict[str, Any]:
    """In the target's group: leave it `room` bytes more than it uses, and use them up."""
    folder = groups.in_place(by, what)
    known: dict[str, Any] = {"victim": victim, "log": kernellog.last(), "moved": []}
    if folder is None:
        folder = f"{groups.OURS}/{mark}"
        found = groups.victims(by, what)
        known |= _aimed(victim, found, made=True, folder=folder)
        common.put_mark(mark, known)

        def remember(moved: list[dict[str, Any]]) -> None:
            known["moved"] = moved
            common.put_mark(mark, known)

        groups.move_in(folder, found, lambda: targets.find(by, what), remember)
    else:
        groups.existing(by, what)
        known |= _aimed(victim, targets.find(by, what), made=False, folder=folder)
    if victim == "target" and not known["targets"]:
        raise LookupError(f"there is no process of {by} '{what}' to be the victim")
    known["previous"] = {name: (common.read_text(f"{folder}/{name}") or "").strip() for name in _LIMITS}
    limit = int(common.read_text(f"{folder}/memory.current") or "0") + int(room)
    old = known["previous"]["memory.max"]
    known["limit"] = min(limit, int(old)) // mmap.PAGESIZE * mmap.PAGESIZE if old.isdigit() else limit
    common.put_mark(mark, known)
    write_file(f"{folder}/memory.max", str(known["limit"]))
    write_file(f"{folder}/memory.swap.max", (common.read_text(f"{folder}/memory.swap.current") or "0").strip())
    events, most = f"{folder}/memory.events", 4 * int(room) + (1 << 28)
    return _provoke(mark, known, holders.below(folder, mark), lambda: _count(events, "oom_kill"), most)


def in_guest(mark: str, by: str, what: str, victim: str) -> dict[str, Any]:
    """In the whole guest. The callers of this program are protected for the time: they carry out the undo."""
    found = targets.find(by, what)
    if victim == "target" and not found:
        raise LookupError(f"there is no process of {by} '{what}' to be the victim")
    known = {"log": kernellog.last(), "moved": [], **_aimed(victim, found, made=False, folder=None)}
    for pid in processes.ancestors() - {1}:
        known["scores"].append(_scored(pid))
    common.put_mark(mark, known)
    for pid in processes.ancestors() - {1}:
        _score(pid, _PROTECTED)
    most = 2 * hold.available() + (1 << 28)
    return _provoke(mark, known, f"{groups.PASSIVE}/{mark}", lambda: _count("/proc/vmstat", "oom_kill"), most)


def end(mark: str) -> None:
    """End the stressor; put limits, scores and processes back. May be said twice."""
    known = holders.stop(mark)
    if known is None:
        return
    folder = known.get("folder")
    for name, value in (known.get("previous") or {}).items():
        if os.path.isdir(folder or "") and value:
            write_file(f"{folder}/{name}", value)
    for entry in known["scores"]:
        if groups.same(entry):
            _score(entry["pid"], entry["score"])
    if known.get("made"):
        groups.move_out(str(folder), known["moved"])
    common.drop_mark(mark)


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """Who was killed since the act by the kernel's own log, and whose process that was."""
    known = common.get_mark(mark) or {}
    # with the whole guest out of memory, the kernel names no group
    folder = known["folder"] if "folder" in known else groups.in_place(by, what)
    group = folder.removeprefix(groups.ROOT) if folder else None
    killed = kernellog.kills(known["log"]) if known else []
    mine = [kill for kill in killed if (kill["group"] is None if folder is None else _inside(kill["group"], group))]
    return {
        "folder": folder,
        "victim": known.get("victim"),
        "stressor": known.get("stressor"),
        "holders_in": known.get("holders_in"),
        "limit": known.get("limit"),
        "previous": known.get("previous"),
        "scores": [{**e, "now": _read_score(e["pid"])} for e in known.get("scores", []) if groups.same(e)],
        "files": groups.files(folder, ("memory.max", "memory.current", "memory.events", "memory.pressure")),
        "kills": [{**kill, "is": _whose(kill, known)} for kill in mine],
        "targets": known.get("targets", []),
        "now": [process.as_dict() for process in targets.find(by, what)][:64],
    }


def _aimed(victim: str, found: list[processes.Process], *, made: bool, folder: str | None) -> dict[str, Any]:
    scores = [_scored(process.pid) for process in found] if victim == "target" else []
    return {
        "victim": victim,
        "folder": folder,
        "made": made,
        "targets": [process.as_dict() for process in found],
        "aimed": len(scores),
        "scores": scores,
    }


def _provoke(mark: str, known: dict[str, Any], folder: str, kills: Callable[[], int], most: int) -> dict[str, Any]:
    for entry in known["scores"][: known["aimed"]]:
        _score(entry["pid"], hold.FIRST_VICTIM)
    before = kills()
    whole = known["folder"] is None

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        held: list[mmap.mmap] = []
        taken = 0
        ready(None)
        while "stressor" not in (common.get_mark(mark) or {}) and wanted():
            time.sleep(0.003)  # it is written down first who it is
        while taken < most and kills() == before and wanted():
            piece = _SMALL if whole and hold.available() < _NEAR else _PIECE
            held.append(mmap.mmap(-1, piece, flags=hold.FLAGS["anon"]))
            taken += piece

    began = holders.start(mark, known, folder, [("sc-oom", body)], _SCORES[known["victim"]])
    common.put_mark(mark, {**known, "holders_in": folder, "holders": began, "stressor": _seen(began)})
    deadline = time.monotonic() + _WAIT_S
    while kills() == before:
        if time.monotonic() > deadline or not any(groups.same(entry) for entry in began):
            if kills() > before:
                break
            raise ValueError("the memory was used up and the kernel killed nobody")
        time.sleep(0.01)
    groups.end(folder)
    return {"stressor": began, "kills": kernellog.kills(known["log"])}


def _seen(began: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, "oom_score_adj": _read_score(entry["pid"])} for entry in began]


def _scored(pid: int) -> dict[str, Any]:
    process = processes.look(pid)
    start = process.start_time if process else 0
    return {"pid": pid, "start_time": start, "score": _read_score(pid) or 0}


def _score(pid: int, value: int) -> None:
    try:
        write_file(f"/proc/{pid}/oom_score_adj", str(value))
    except (FileNotFoundError, ProcessLookupError):
        pass


def _read_score(pid: int) -> int | None:
    text = (common.read_text(f"/proc/{pid}/oom_score_adj") or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _count(path: str, key: str) -> int:
    for line in (common.read_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def _inside(group: str | None, folder: str | None) -> bool:
    return group is not None and folder is not None and (group == folder or group.startswith(f"{folder}/"))


def _whose(kill: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    for name, listed in (("stressor", known.get("stressor") or known.get("holders")), ("target", known.get("targets"))):
        if any(entry["pid"] == kill["pid"] for entry in listed or []):
            return name
    return "other"


def main(argv: list[str]) -> int:
    """`oom in-group|in-guest|end|show`."""
    verbs: dict[str, common.Verb] = {"in-group": in_group, "in-guest": in_guest, "end": end, "show": show}
    return common.serve("oom", verbs, argv)
