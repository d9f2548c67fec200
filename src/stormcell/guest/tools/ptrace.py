"""ptrace(2) by seizing: a thread runs on at full speed and stops only for signals and events (no stop at the start)."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

SEIZE, CONT, LISTEN, GETSIGINFO = 0x4206, 7, 0x4208, 0x4202
TRACE_CHILDREN: Final = 2 | 4 | 8  # fork, vfork, clone: new ones are seized by the kernel, with the same options
TRACE_EXEC: Final = 16  # without it exec(2) would raise SIGTRAP
ALL_THREADS: Final = 0x40000000  # __WALL
EVENT_STOP: Final = 128
SI_KERNEL: Final = 0x80
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace({request}, {tid}): {os.strerror(number)}")


def seize(tid: int) -> bool:
    """False for a thread that is gone, or that another tracer (a debugger) has."""
    try:
        _ptrace(SEIZE, tid, 0, TRACE_CHILDREN | TRACE_EXEC)
    except OSError:
        return False
    return True


def proceed(tid: int, number: int = 0) -> None:
    """Let a stopped thread go on, with a signal or none. One that was killed meanwhile needs nothing."""
    try:
        _ptrace(CONT, tid, 0, number)
    except ProcessLookupError:
        pass


def is_from_kernel(tid: int) -> bool:
    """Did the kernel itself raise the signal that this thread is stopped for?"""
    info = (ctypes.c_int * 32)()  # siginfo_t: si_signo, si_errno, si_code
    try:
        _ptrace(GETSIGINFO, tid, 0, ctypes.addressof(info))
    except OSError:
        return False
    return int(info[2]) == SI_KERNEL


def settle(tid: int, status: int) -> int:
    """A stop that is none of ours goes on as without a tracer. Returns the signal when there is one to decide on."""
    number, event = status >> 8 & 0xFF, status >> 16
    if event == EVENT_STOP and number in _GROUP_STOPS:
        try:
            _ptrace(LISTEN, tid)  # it stays stopped as somebody wanted it, until SIGCONT
        except ProcessLookupError:
            pass
        return 0
    if event:
        proceed(tid)
        return 0
    return number
