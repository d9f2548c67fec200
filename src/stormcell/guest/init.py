"""PID 1 of the guest: sets the machine up, keeps the agent alive, reaps, supervises services. It never exits."""

from __future__ import annotations

import gc
import glob
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from stormcell.guest import agent, boot, commands, resume
from stormcell.guest.kernel import lock_memory, write_file
from stormcell.guest.sealed import conductor, mailbox
from stormcell.guest.supervisor import Supervisor

_RESTART = 0.2


def main(argv: Sequence[str]) -> int:
    """Run as PID 1. Anything else is refused: this would set up the wrong machine."""
    if os.getpid() != 1 or argv:
        sys.stderr.write("stormcell-guest init runs as process 1 of a guest, without arguments\n")
        return 2
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_IGN)
    os.setsid()
    boot.set_up(say)
    commands.warm()
    gc.collect()
    gc.freeze()  # forked children then write to fewer of the pages that they share with us
    kept = {"agent": lambda: _start("agent", _agent)}
    if (address := mailbox.address()) is not None:
        kept["conductor"] = lambda: _start("conductor", lambda: _conductor(address))
    supervisor = Supervisor(say, kept)
    while True:
        try:
            supervisor.run()
        except Exception as error:
            say(f"{type(error).__name__}: {error}")
            time.sleep(_RESTART)


def say(text: str) -> None:
    """One line on the console."""
    try:
        os.write(2, f"stormcell init: {text}\n".encode(errors="replace"))
    except OSError:
        pass


def _start(name: str, serve: Callable[[], None]) -> int:
    """Fork it from this interpreter. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _set_apart()
            serve()
        except BaseException as error:
            say(f"the {name} ended: {type(error).__name__}: {error}")
        finally:
            os._exit(1)
    return pid


def _set_apart() -> None:
    os.closerange(3, 1 << 20)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for path, text in ((f"{boot.AGENT}/cgroup.procs", "0"), ("/proc/self/oom_score_adj", "-1000")):
        try:
            write_file(path, text)
        except OSError as error:
            say(f"{path}: {error}")


def _lock_memory(name: str) -> None:
    gc.freeze()
    try:
        lock_memory()
    except OSError as error:
        say(f"the {name}'s memory is not locked: {error}")


def _conductor(address: int) -> None:
    served = conductor.Conductor(address)
    _lock_memory("conductor")
    served.serve()


def _agent() -> None:
    handlers = {**agent.HANDLERS, "resume": resume.Resume().serve, "clock": resume.clock}
    served = agent.Agent(cgroups=boot.EXECS, handlers=handlers)
    served.generation = resume.generation()
    served.forest.clear()
    served.forest.tend()
    for path in sorted(glob.glob("/dev/virtio-ports/agent.*")):
        served.add_port(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    _lock_memory("agent")
    served.loop.run()
