"""Start a program without copying this process.

fork(2) copies the page tables of a whole interpreter, and parent and child then copy each page that either writes to.
Here the child shares our memory until execve(2): clone3(CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP), straight into
its cgroup, carries out a list of system calls that was prepared for it. It runs no Python: the few bytes of machine
code below are all that it is before it is the program.

The parent of a vfork is suspended until the child's execve, which may wait for a disk that is under a fault. So a
thread made for this, which shares our memory and runs the same bytes, is the one that waits, and we go on as soon as
the child's pid is known. Neither has a stack to write to, and both run with all signals blocked.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# rbx: the header (see _Header). The calls are 64 bytes each: number, six arguments, whether a failure is tolerated;
# the result replaces the number. 435 clone3, 14 rt_sigprocmask, 202 futex, 60 exit, 231 exit_group.
_CODE = bytes.fromhex(
    "53 4889fb"  # push rbx; mov rbx, rdi
    "b80e000000 bf02000000 488d7320 488d5318 41ba08000000 0f05"  # rt_sigprocmask(SIG_SETMASK, all, old, 8)
    "b8b3010000 488b3b be58000000 0f05"  # clone3(thread)
    "4885c0 7448 790a 894328 c7432c01000000"  # 0: thread; error: pid = error, over = 1
    "837b2800 7518"  # wait: pid is there: done
    "b8ca000000 488d7b28 be80000000 31d2 4c8d5338 0f05 ebe2"  # futex(pid, FUTEX_WAIT_PRIVATE, 0, 1 ms); wait
    "b80e000000 bf02000000 488d7318 31d2 41ba08000000 0f05"  # done: rt_sigprocmask(SIG_SETMASK, old, NULL, 8)
    "48634328 5b c3"  # return pid
    "b8b3010000 488b7b08 be58000000 0f05"  # thread: clone3(child); returns when the child is the program, or gone
    "4885c0 7415 7903 894328"  # 0: child; error: pid = error
    "c7432c01000000 31ff b83c000000 0f05"  # over = 1; exit(0)
    "4c8b6310"  # child: r12 = calls
    "498b0424 498b7c2408 498b742410 498b542418 4d8b542420 4d8b442428 4d8b4c2430 0f05"  # next: the call
    "49890424 4885c0 7918 49837c243800 7510"  # its result; not negative, or tolerated: ok
    "4c896330 bf7f000000 b8e7000000 0f05"  # failed = this call; exit_group(127)
    "4983c440 ebb5"  # ok: next
)
_HEADER = struct.Struct("<QQQ QQ iiQ qq")
"""thread's and child's clone_args, calls; old and full signal mask; pid, over, failed call; 1 ms as a timespec."""
_PID_AT, _OVER_AT, _FAILED_AT = 40, 44, 48
_CLONE = struct.Struct("<11Q")  # struct clone_args, linux/sched.h
_CALL = struct.Struct("<8Q")
_VM, _FS, _FILES, _SIGHAND, _PIDFD, _VFORK = 0x100, 0x200, 0x400, 0x800, 0x1000, 0x4000
_THREAD, _SYSVSEM, _PARENT_SETTID = 0x10000, 0x40000, 0x100000
_CLEAR_SIGHAND, _INTO_CGROUP = 0x100000000, 0x200000000
_WRITE, _OPEN, _CLOSE, _SIGACTION, _SIGPROCMASK, _DUP2 = 1, 2, 3, 13, 14, 33
_SETNS = 308
_EXECVE, _CHDIR, _SETSID, _FUTEX, _CLOSE_RANGE = 59, 80, 112, 202, 436
_CLOSE_RANGE_CLOEXEC, _WAKE_PRIVATE = 4, 129
_AGAIN = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGXFSZ)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
_PAGE = 4096


@dataclass(frozen=True)
class Program:
    """What the child is to become: a working folder, arguments, environment, where to look for it."""

    argv: Sequence[bytes]
    cwd: bytes
    env: Mapping[bytes, bytes]
    path: Sequence[bytes]

    @property
    def candidates(self) -> list[bytes]:
        """Paths in the order of their trial, as os.execvpe has it."""
        name = self.argv[0]
        return [name] if b"/" in name else [folder + b"/" + name if folder else name for folder in self.path]


@dataclass(frozen=True)
class Launched:
    """A child under way. The launcher keeps its memory, which child and thread work with, until both are over."""

    pid: int
    pidfd: int
    _memory: ctypes.Array[ctypes.c_char]
    _calls: int
    _stages: Sequence[str]

    @property
    def over(self) -> bool:
        """The child is the program, or gone, and nobody uses the memory any more."""
        return bool(struct.unpack_from("<i", self._memory, _OVER_AT)[0])

    def failure(self) -> tuple[str, int] | None:
        """The stage and errno that the child failed with; None when it became the program. Ask when it is over."""
        base = ctypes.addressof(self._memory)
        (failed,) = struct.unpack_from("<Q", self._memory, _FAILED_AT)
        if not failed:
            return None
        at = failed - base
        stage = self._stages[(at - self._calls) // _CALL.size]
        numbers = [-struct.unpack_from("<q", self._memory, at)[0]]
        if stage == "program":
            tried = self._stages.count("program")
            numbers = [-struct.unpack_from("<q", self._memory, at - place * _CALL.size)[0] for place in range(tried)][
                ::-1
            ]
        return stage, next((number for number in numbers if number not in _NOT_THERE), numbers[-1])


class Launcher:
    """Raises OSError where this cannot be done: another processor, memory that may not hold code."""

    def __init__(self) -> None:
        self._under_way: list[Launched] = []
        if platform.machine() != "x86_64":
            raise OSError(errno.ENOSYS, "machine code for x86-64 alone")
        self._code = mmap.mmap(-1, _PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code.write(_CODE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._run = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(start)
        texts = b"/proc/self/oom_score_adj\0" + b"0\0" + bytes(32)  # the last: a default struct sigaction, an empty set
        thread = _CLONE.pack(_VM | _FS | _FILES | _SIGHAND | _THREAD | _SYSVSEM, *(0,) * 10)
        self._fixed = ctypes.create_string_buffer(thread + texts, _CLONE.size + len(texts))
        base = self._thread = ctypes.addressof(self._fixed)
        score, nought, empty = base + _CLONE.size, base + _CLONE.size + 25, base + _CLONE.size + 27
        before: list[tuple[int, ...]] = [(_SETSID, 0, 0, 0, 0, 0, 0, 0)]
        before += [(_SIGACTION, number, empty, 0, 8, 0, 0, 0) for number in _AGAIN if not _default(number)]
        if _score() != b"0":
            # with the lowest descriptor free, that is the one that open(2) returns
            before += [
                (_CLOSE, 0, 0, 0, 0, 0, 0, 1),
                (_OPEN, score, os.O_WRONLY, 0, 0, 0, 0, 1),
                (_WRITE, 0, nought, 1, 0, 0, 0, 1),
            ]
        self._before = b"".join(_CALL.pack(*call) for call in before)
        after = [
            (_CLOSE_RANGE, 3, 0xFFFFFFFF, _CLOSE_RANGE_CLOEXEC, 0, 0, 0, 1),
            (_SIGPROCMASK, signal.SIG_SETMASK, empty, 0, 8, 0, 0, 1),
        ]
        self._after = b"".join(_CALL.pack(*call) for call in after)
        # the futex, what comes before, three descriptors, what comes after
        self._stages = ["fork"] * (1 + len(before) + 3 + len(after))

    def start(self, program: Program, fds: Sequence[int], cgroup: int, namespaces: Sequence[int] = ()) -> Launched:
        """Start a child with `fds` as its standard descriptors (each above 2, for they are put in their place).

        `cgroup` is a descriptor of a cgroup's folder, or -1; `namespaces` are descriptors of those that it enters. Its
        descriptors above 2 are closed by the execve. Raises OSError when there is no child, ValueError for texts that
        no program takes.
        """
        texts = _Texts()
        cwd = texts.add(program.cwd)
        argv = [texts.add(part) for part in program.argv]
        env = [texts.add(key + b"=" + value) for key, value in program.env.items()]
        tried = [texts.add(path) for path in program.candidates]
        stages = [*self._stages, *("node" for _ in namespaces), "cwd", *("program" for _ in tried)]
        clone_at = _HEADER.size
        calls_at = clone_at + _CLONE.size + 8  # the last 8: the pidfd
        pointers_at = calls_at + _CALL.size * len(stages)
        texts_at = pointers_at + 8 * (len(argv) + len(env) + 2)
        size = (texts_at + texts.size + _PAGE - 1) // _PAGE * _PAGE
        memory = ctypes.create_string_buffer(size)
        base = ctypes.addressof(memory)
        at, env_at = base + texts_at, base + pointers_at + 8 * (len(argv) + 1)
        flags = _VM | _VFORK | _PIDFD | _PARENT_SETTID | _CLEAR_SIGHAND | (_INTO_CGROUP if cgroup >= 0 else 0)
        pidfd_at = calls_at - 8
        pieces = [
            _HEADER.pack(self._thread, base + clone_at, base + calls_at, 0, 2**64 - 1, 0, 0, 0, 0, 1_000_000),
            _CLONE.pack(flags, base + pidfd_at, 0, base + _PID_AT, signal.SIGCHLD, 0, 0, 0, 0, 0, max(cgroup, 0)),
            bytes(8),
            _CALL.pack(_FUTEX, base + _PID_AT, _WAKE_PRIVATE, 1, 0, 0, 0, 1),
            self._before,
            *(_CALL.pack(_DUP2, fd, place, 0, 0, 0, 0, 0) for place, fd in enumerate(fds)),
            self._after,
            *(_CALL.pack(_SETNS, fd, 0, 0, 0, 0, 0, 0) for fd in namespaces),
            _CALL.pack(_CHDIR, at + cwd, 0, 0, 0, 0, 0, 0),
            *(_CALL.pack(_EXECVE, at + path, base + pointers_at, env_at, 0, 0, 0, path != tried[-1]) for path in tried),
            struct.pack(f"<{len(argv) + 1}Q", *(at + part for part in argv), 0),
            struct.pack(f"<{len(env) + 1}Q", *(at + part for part in env), 0),
            *texts.pieces,
        ]
        whole = b"".join(pieces)
        ctypes.memmove(base, whole, len(whole))
        pid = self._run(base)
        (pidfd,) = struct.unpack_from("<i", memory, pidfd_at)
        launched = Launched(pid, pidfd, memory, calls_at, stages)
        self._under_way = [launched, *(earlier for earlier in self._under_way if not earlier.over)]
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return launched


class _Texts:
    """NUL-terminated texts one behind the other."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0

    def add(self, text: bytes) -> int:
        """Its offset. Raises ValueError when the text holds a NUL."""
        if b"\0" in text:
            raise ValueError("embedded null byte")
        at = self.size
        self.pieces += (text, b"\0")
        self.size += len(text) + 1
        return at


def _default(number: signal.Signals) -> bool:
    """Whether the child finds the default action without our help; clone3 itself clears what has a handler."""
    return signal.getsignal(number) is not signal.SIG_IGN


def _score() -> bytes:
    try:
        with open("/proc/self/oom_score_adj", "rb") as file:
            return file.read().strip()
    except OSError:
        return b"0"
