"""ptrace(2) by seizing: a thread runs on and stops only for signals, events, and system calls if that is asked for."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from typing import Final, NamedTuple

SEIZE, INTERRUPT, LISTEN, GETSIGINFO, SYSCALL_INFO = 0x4206, 0x4207, 0x4208, 0x4202, 0x420E
CONT, SYSCALL, PEEKUSER, POKEUSER = 7, 24, 3, 6
TRACE_CHILDREN: Final = 2 | 4 | 8  # fork, vfork, clone: new ones are seized by the kernel, with the same options
TRACE_EXEC: Final = 16  # without it exec(2) would raise SIGTRAP
MARK_SYSCALLS: Final = 1
SYSCALL_STOP: Final = signal.SIGTRAP | 0x80
ALL_THREADS: Final = 0x40000000  # __WALL
EVENT_STOP: Final = 128
SI_KERNEL: Final = 0x80
X86_64: Final = 0xC000003E
RDX: Final = 12 * 8  # struct user_regs_struct
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_CALL = struct.Struct("<B3xIQQQ6Q")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Call(NamedTuple):
    """A stop at a system call: at its beginning (`entry`) with number and arguments, or at its end with the result."""

    entry: bool
    native: bool
    number: int
    arguments: tuple[int, ...]
    result: int


def _ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace({request}, {tid}): {os.strerror(number)}")


def seize(tid: int, every_call: bool = False) -> bool:
    """False for a thread that is gone, or that another tracer (a debugger) has.

    To stop it at system calls it has to be interrupted once: some calls that wait come back with EINTR then, as after
    SIGSTOP and SIGCONT (signal(7)).
    """
    try:
        _ptrace(SEIZE, tid, 0, TRACE_CHILDREN | TRACE_EXEC | MARK_SYSCALLS)
        if every_call:
            _ptrace(INTERRUPT, tid)
    except OSError:
        return False
    return True


def proceed(tid: int, number: int = 0, every_call: bool = False) -> None:
    """Let a stopped thread go on, with a signal or none. One that was killed meanwhile needs nothing."""
    try:
        _ptrace(SYSCALL if every_call else CONT, tid, 0, number)
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


def call(tid: int) -> Call | None:
    """The system call that a thread stopped at; None when it is gone."""
    info = ctypes.create_string_buffer(_CALL.size)
    try:
        _ptrace(SYSCALL_INFO, tid, _CALL.size, ctypes.addressof(info))
    except OSError:
        return None
    kind, arch, _, _, number, *arguments = _CALL.unpack(info.raw)
    result = number - (1 << 64) if number >> 63 else number
    return Call(kind == 1, arch == X86_64, number, tuple(arguments), result)


def set_third_argument(tid: int, value: int) -> None:
    """Of the system call that is about to begin, or the register after it."""
    try:
        _ptrace(POKEUSER, tid, RDX, value)
    except ProcessLookupError:
        pass


def settle(tid: int, status: int, every_call: bool = False) -> int:
    """A stop that is none of ours goes on as without a tracer. Returns the signal when there is one to decide on."""
    number, event = status >> 8 & 0xFF, status >> 16
    if event == EVENT_STOP and number in _GROUP_STOPS:
        try:
            _ptrace(LISTEN, tid)  # it stays stopped as somebody wanted it, until SIGCONT
        except ProcessLookupError:
            pass
        return 0
    if event:
        proceed(tid, 0, every_call)
        return 0
    return number
