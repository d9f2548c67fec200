"""Lower a resource limit of running processes, or of the whole guest, and count who is refused for it."""

from __future__ import annotations

import errno
import os
import resource
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, groups, histograms, processes, targets
from stormcell.guest.tools.processes import Process

EVENT = "raw_syscalls/sys_exit"
FILE_MAX = "/proc/sys/fs/file-max"
_LIMITS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
_FORKS = " || ".join(f"id == {number}" for number in (56, 57, 58, 435))  # x86-64: clone, fork, vfork, clone3
_REFUSED = {
    "nofile": f"ret == -{errno.EMFILE}",
    "nproc": f"ret == -{errno.EAGAIN} && ({_FORKS})",
    "file-max": f"ret == -{errno.ENFILE}",
}


def lower(mark: str, what_limit: str, value: str, by: str, what: str) -> dict[str, Any]:
    """Set the soft limit to `value`, or to `+N`: so much more than is used now. Then count refusals."""
    if what_limit == "file-max":
        return _lower_all(mark, value)
    which = _LIMITS[what_limit]
    found = targets.find(by, what)
    if not found:
        raise LookupError(f"there is no process of {by} '{what}'")
    if what_limit == "nproc" and any(_exempt(process.pid) for process in found):
        raise ValueError("the kernel holds no process of root to a number of processes; use process.pids")
    lowered = []
    for process in found:
        soft, hard = resource.prlimit(process.pid, which)
        new = _new(what_limit, process.pid, value)
        if soft != resource.RLIM_INFINITY and new >= soft:
            raise ValueError(
                f"process {process.pid} ({process.comm}) has a limit of {soft} already, not more than {new}"
            )
        lowered.append({**process.as_dict(), "soft": soft, "hard": hard, "new": new})
    common.put_mark(mark, {"limit": what_limit, "value": value, "by": by, "what": what, "lowered": lowered})
    histograms.start(_counter(mark), EVENT, "common_pid.execname", _REFUSED[what_limit])
    for entry in lowered:
        if groups.same(entry):
            resource.prlimit(entry["pid"], which, (entry["new"], entry["hard"]))
    return {"lowered": lowered}


def _lower_all(mark: str, value: str) -> dict[str, Any]:
    old = int((common.read_text(FILE_MAX) or "0").strip())
    used = int((common.read_text("/proc/sys/fs/file-nr") or "0").split()[0])
    new = used + int(value[1:]) if value.startswith("+") else int(value)
    if new >= old:
        raise ValueError(f"fs.file-max is {old} already, not more than {new}")
    common.put_mark(mark, {"limit": "file-max", "value": value, "old": old, "new": new, "used": used})
    histograms.start(_counter(mark), EVENT, "common_pid.execname", _REFUSED["file-max"])
    write_file(FILE_MAX, str(new))
    return {"old": old, "new": new}


def restore(mark: str) -> None:
    """Put the limits back, of those that were lowered and of their children that inherited it. May be said twice."""
    known = common.get_mark(mark)
    histograms.stop(_counter(mark), EVENT)
    if not known:
        return
    if known["limit"] == "file-max":
        write_file(FILE_MAX, str(known["old"]))
    else:
        which = _LIMITS[known["limit"]]
        for entry, process in _heirs(known):
            try:
                soft, hard = resource.prlimit(process.pid, which)
                if soft == entry["new"]:
                    resource.prlimit(process.pid, which, (entry["soft"], hard))
            except ProcessLookupError:
                continue
    common.drop_mark(mark)


def show(mark: str, what_limit: str, by: str, what: str) -> dict[str, Any]:
    """The limits as the kernel has them, how much is used of them, and who was refused."""
    known = common.get_mark(mark) or {}
    counted = histograms.counted(_counter(mark), EVENT)
    answer: dict[str, Any] = {
        "limit": known.get("limit"),
        "value": known.get("value"),
        "counting": counted is not None,
        "refused": [refused for keys, hits in counted or [] if (refused := _refused(keys, hits))],
    }
    if what_limit == "file-max":
        new = (common.read_text(FILE_MAX) or "").strip()
        return {**answer, "file_max": new, "old": known.get("old"), "new": known.get("new"), "used": known.get("used")}
    found = targets.find(by, what)
    answer["lowered"] = [
        {**e, "shown": _shown(what_limit, e["pid"])} for e in known.get("lowered", []) if groups.same(e)
    ]
    answer["targets"] = known.get("lowered", [])
    answer["now"] = [{**p.as_dict(), "shown": _shown(what_limit, p.pid)} for p in found][:64]
    return answer


def _refused(keys: dict[str, str], hits: int) -> dict[str, Any] | None:
    """`comm [tid]`, with the process that the thread belongs to while it lives."""
    comm, _, rest = keys.get("common_pid", "").rpartition("[")
    thread = rest.strip(" ]")
    if not thread.isdigit():
        return None
    lines = (common.read_text(f"/proc/{thread}/status") or "").splitlines()
    group = next((line.split()[1] for line in lines if line.startswith("Tgid:")), thread)
    return {"comm": comm.strip(), "thread": int(thread), "pid": int(group), "hits": hits}


def _new(what_limit: str, pid: int, value: str) -> int:
    if not value.startswith("+"):
        return int(value)
    more = int(value[1:])
    if what_limit == "nproc":
        return _tasks_of(os.stat(f"/proc/{pid}").st_uid) + more
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = 0
    while more > 0 or limit in taken:  # the limit is on the number of a descriptor, and free numbers lie between
        more -= limit not in taken
        limit += 1
    return limit


def _tasks_of(uid: int) -> int:
    count = 0
    for process in processes.everyone():
        try:
            if os.stat(f"/proc/{process.pid}").st_uid == uid:
                count += len(os.listdir(f"/proc/{process.pid}/task"))
        except OSError:  # it ended meanwhile
            continue
    return count


def _exempt(pid: int) -> bool:
    return os.stat(f"/proc/{pid}").st_uid == 0


def _shown(what_limit: str, pid: int) -> int | None:
    try:
        return resource.prlimit(pid, _LIMITS[what_limit])[0]
    except (OSError, ValueError):
        return None


def _heirs(known: dict[str, Any]) -> list[tuple[dict[str, Any], Process]]:
    """Every process that was lowered, is a descendant of one, or is found as a target now."""
    mine = {entry["pid"]: entry for entry in known["lowered"] if groups.same(entry)}
    news = {entry["new"]: entry for entry in known["lowered"]}
    found: list[tuple[dict[str, Any], Process]] = []
    everyone = {process.pid: process for process in processes.everyone()}
    for process in everyone.values():
        above: Process | None = process
        while above is not None and above.pid not in mine:
            above = everyone.get(above.parent)
        if above is not None:
            found.append((mine[above.pid], process))
    for process in targets.find(known["by"], known["what"]):
        entry = news.get(_shown(known["limit"], process.pid) or -1)
        if entry is not None:
            found.append((entry, process))
    return found


def _counter(mark: str) -> str:
    return f"sc-{mark}"


def main(argv: list[str]) -> int:
    """`rlimit lower|restore|show`."""
    return common.serve("rlimit", {"lower": lower, "restore": restore, "show": show}, argv)
