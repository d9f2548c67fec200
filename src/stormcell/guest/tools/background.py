"""What a fault keeps running between its act and its undo: a process of its own, in a cgroup of its own.

It answers questions on a unix socket, which is how a reading knows that it lives and what it does. It ends when its
cgroup is killed, and by itself when its mark is gone.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, processes

FAULTS = "/sys/fs/cgroup/stormcell/faults"
LOOK_S = 0.5
ANSWER_S = 5.0
KILLED_S = 5.0
_LONGEST_REQUEST = 1 << 16
_CREDENTIALS = struct.Struct("3i")

Answer = Callable[[Mapping[str, Any]], Any]


def start(fault: str, run: Callable[[], None], answer: Answer) -> None:
    """Fork a process that calls `run`, while `answer` serves what `ask` asks. What it needs is opened before.

    Raises OSError, EADDRINUSE when one of that fault is there already.
    """
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(_address(fault))
    control.listen(8)
    os.makedirs(f"{FAULTS}/{fault}", exist_ok=True)
    common.put_mark(_mark(fault), {})
    pid = os.fork()
    if pid == 0:
        _become(fault, control, run, answer)
    control.close()
    process = processes.look(pid)
    common.put_mark(_mark(fault), process.as_dict() if process else {})


def ask(fault: str, request: Mapping[str, Any]) -> Any:
    """What the process of that fault answers, None when there is none. Raises ValueError for a refusal."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(_address(fault))
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: connection.recv(65536), b""))
            answer = json.loads(said)
        except (OSError, ValueError):
            return None
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["answer"]


def stop(fault: str) -> None:
    """Kill it and wait until it is gone; there need not be one. Raises TimeoutError."""
    common.drop_mark(_mark(fault))
    folder = f"{FAULTS}/{fault}"
    deadline = time.monotonic() + KILLED_S
    while os.path.isdir(folder):
        try:
            write_file(f"{folder}/cgroup.kill", "1")
            os.rmdir(folder)
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the processes in {folder} do not end") from None
            time.sleep(0.005)
    try:
        os.rmdir(FAULTS)  # the last one
    except OSError:
        pass


def is_there(fault: str) -> bool:
    """Is anything of it left: its cgroup or its mark?"""
    return os.path.isdir(f"{FAULTS}/{fault}") or os.path.exists(common.mark_path(_mark(fault)))


def _mark(fault: str) -> str:
    return f"{fault}.background"


def _address(fault: str) -> str:
    return f"\0stormcell/faults/{fault}"


def _become(fault: str, control: socket.socket, run: Callable[[], None], answer: Answer) -> NoReturn:
    try:
        os.setsid()
        write_file(f"{FAULTS}/{fault}/cgroup.procs", "0")
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        _spare()
        threading.Thread(target=_controlled, args=(fault, control, answer), daemon=True).start()
        run()
    finally:
        os._exit(1)


def _spare() -> None:
    """The kernel's OOM killer takes the target, not the fault."""
    try:
        write_file("/proc/self/oom_score_adj", "-999")
    except OSError:
        pass


def _controlled(fault: str, control: socket.socket, answer: Answer) -> None:
    control.settimeout(LOOK_S)
    while os.path.exists(common.mark_path(_mark(fault))):
        try:
            connection, _ = control.accept()
        except TimeoutError:
            continue
        except OSError:
            time.sleep(LOOK_S)
            continue
        with connection:
            try:
                _serve(connection, answer)
            except Exception:  # whoever asked went away, or asked nonsense
                continue
    os._exit(0)


def _serve(connection: socket.socket, answer: Answer) -> None:
    who = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(who)[1] != os.geteuid():
        return
    connection.settimeout(ANSWER_S)
    asked = b""
    while len(asked) < _LONGEST_REQUEST and (piece := connection.recv(65536)):
        asked += piece
    try:
        told: dict[str, Any] = {"answer": answer(json.loads(asked))}
    except (KeyError, TypeError, ValueError, OSError) as error:
        told = {"error": common.describe(error)}
    connection.sendall(json.dumps(told).encode())
