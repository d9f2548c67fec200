"""Processes of ours that go on after the tool has ended: burners, eaters, the parents of zombies.

They are forked from this interpreter, live in a cgroup of their own (below the target's when they have to be charged
to it), are named by pid and start time in the mark of the fault, and end by themselves when the mark is gone. The mark
names the cgroup before there is anybody in it, so an act that was killed half-way is undone too.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, groups, processes

READY_S = 60.0
MEMORY = ("RssAnon", "RssFile", "RssShmem", "VmLck")

Ready = Callable[[Any], None]
Body = Callable[[Callable[[], bool], Ready], None]
"""`body(wanted, ready)`: does its work until `wanted()` is false; calls `ready` once it stands, with what it knows."""


def below(folder: str, mark: str) -> str:
    """The group for holders that are charged to `folder`: no controller is given to it, so its use is its parent's."""
    return f"{folder}/stormcell-{mark}"


def place(by: str, what: str, mark: str, own: str) -> tuple[str, str | None]:
    """The group for holders, and the one that it is charged to: the target's, or None for `own`, a group apart.

    Raises LookupError when there is no such target, or when it is in the group of the agent.
    """
    if by == "none":
        return f"{own}/{mark}", None
    folder = groups.in_place(by, what)
    if folder is not None:
        groups.existing(by, what)
    else:
        folder = groups.of(groups.victims(by, what)[0].pid) or groups.ROOT
    if folder == groups.ROOT:
        raise LookupError(f"the process of {by} '{what}' is in no cgroup of its own; nothing can be charged to it")
    return below(folder, mark), folder


def start(
    mark: str, known: Mapping[str, Any], folder: str, bodies: Sequence[tuple[str, Body]], oom_score_adj: int | None
) -> list[dict[str, Any]]:
    """Fork a holder for each (name, body) in a new group `folder`, and wait until all are ready.

    Raises OSError when one is not: they are all ended by the undo.
    """
    common.put_mark(mark, {**known, "holders_in": folder, "holders": []})
    groups.make(folder)
    began = [(name, *_fork(mark, folder, name, body, oom_score_adj)) for name, body in bodies]
    holders = []
    for name, pid, fd in began:
        said = _await(fd)
        process = processes.look(pid)
        if not said.startswith("{") or process is None:
            raise OSError(f"{name} ({pid}) did not come to stand: {said if said[:1] != '{' and said else _why(pid)}")
        holders.append({**process.as_dict(), "knows": json.loads(said)["knows"]})
    common.put_mark(mark, {**known, "holders_in": folder, "holders": holders})
    return holders


def stop(mark: str) -> dict[str, Any] | None:
    """End them all and remove their group; what the mark said. The mark stays: the caller drops it when all is undone.

    Raises OSError when somebody is left. May be said twice.
    """
    known = common.get_mark(mark)
    if known and known.get("holders_in"):
        groups.end(known["holders_in"])
    return dict(known) if known else None


def show(known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the kernel says of each holder that is still there."""
    return [look(entry) for entry in known.get("holders", []) if groups.same(entry)]


def look(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A process as the kernel shows it: group, scheduling class, OOM score, memory by kind (bytes), CPU time (us)."""
    pid = entry["pid"]
    stat = (common.read_text(f"/proc/{pid}/stat") or ")").rpartition(")")[2].split()
    used = (common.read_text(f"/proc/{pid}/schedstat") or "").split()
    lines = (line.partition(":") for line in (common.read_text(f"/proc/{pid}/status") or "").splitlines())
    memory = {key: int(text.split()[0]) << 10 for key, _, text in lines if key in MEMORY}
    return {
        **entry,
        "comm": (common.read_text(f"/proc/{pid}/comm") or "").strip(),
        "in": groups.of(pid),
        "state": stat[0] if stat else "",
        "rt_priority": int(stat[37]) if len(stat) > 38 else 0,
        "policy": int(stat[38]) if len(stat) > 38 else 0,
        "oom_score_adj": int(common.read_text(f"/proc/{pid}/oom_score_adj") or "0"),
        "cpus": sorted(os.sched_getaffinity(pid)) if stat else [],
        "memory": memory,
        "used_usec": int(used[0]) // 1000 if used else 0,
        "waited_usec": int(used[1]) // 1000 if len(used) > 1 else 0,
    }


def _fork(mark: str, folder: str, name: str, body: Body, oom_score_adj: int | None) -> tuple[int, int]:
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(mark, folder, name, body, oom_score_adj, write)
    os.close(write)
    return pid, read


def _become(mark: str, folder: str, name: str, body: Body, oom_score_adj: int | None, pipe: int) -> NoReturn:
    try:
        os.setsid()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.dup2(pipe, 3)
        os.closerange(4, 1 << 16)
        write_file(f"{folder}/cgroup.procs", "0")
        write_file("/proc/self/comm", name)
        if oom_score_adj is not None:  # before the first page is taken: the kernel may kill at any of them
            write_file("/proc/self/oom_score_adj", str(oom_score_adj))
        body(_watch(mark), lambda knows: _ready(3, knows))
        os._exit(0)
    except BaseException as error:
        try:
            os.write(3, common.describe(error).encode()[:400])
        except OSError:
            pass
    finally:
        os._exit(1)


def _watch(mark: str) -> Callable[[], bool]:
    path = common.mark_path(mark)
    return lambda: os.path.exists(path)


def _ready(fd: int, knows: Any) -> None:
    os.write(fd, json.dumps({"knows": knows}).encode())
    os.close(fd)


def _await(fd: int) -> str:
    said = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    deadline = time.monotonic() + READY_S
    try:
        while (left := deadline - time.monotonic()) > 0:
            if not poll.poll(left * 1000):
                break
            piece = os.read(fd, 512)
            if not piece:
                break
            said += piece
        return said.decode(errors="replace")
    finally:
        os.close(fd)


def _why(pid: int) -> str:
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return "it is gone"
    if not done:
        return f"not within {READY_S:g} s"
    code = os.waitstatus_to_exitcode(status)
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}"


def libc() -> ctypes.CDLL:
    """For system calls that Python lacks."""
    return ctypes.CDLL(None, use_errno=True)
