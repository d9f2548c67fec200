"""The groups of system calls that can be delayed: their numbers on x86_64, and where the descriptor of the file is."""

from __future__ import annotations

from typing import NamedTuple

RESULT, NONE = 6, 7


class Group(NamedTuple):
    """`numbers`: system call to the place of its descriptor (0: the first argument, `RESULT` or `NONE`)."""

    name: str
    numbers: dict[int, int]
    covers: str

    @property
    def about_files(self) -> bool:
        """Can it be told by its path?"""
        return NONE not in self.numbers.values()


GROUPS: tuple[Group, ...] = (
    Group("read", {0: 0, 17: 0, 19: 0, 295: 0, 327: 0}, "read, pread64, readv, preadv, preadv2"),
    Group("write", {1: 0, 18: 0, 20: 0, 296: 0, 328: 0}, "write, pwrite64, writev, pwritev, pwritev2"),
    Group("open", {2: 6, 85: 6, 257: 6, 437: 6}, "open, creat, openat, openat2; by path only those that succeed"),
    Group("fsync", {74: 0, 75: 0, 277: 0, 306: 0}, "fsync, fdatasync, sync_file_range, syncfs"),
    Group("readdir", {78: 0, 217: 0}, "getdents, getdents64"),
    Group("truncate", {77: 0, 285: 0}, "ftruncate, fallocate"),
    Group("lock", {73: 0}, "flock"),
    Group("stat", {4: 7, 5: 7, 6: 7, 262: 7, 332: 7}, "stat, fstat, lstat, newfstatat, statx"),
    Group("rename", {82: 7, 264: 7, 316: 7}, "rename, renameat, renameat2"),
    Group("unlink", {87: 7, 84: 7, 263: 7}, "unlink, rmdir, unlinkat"),
    Group("mkdir", {83: 7, 258: 7}, "mkdir, mkdirat"),
    Group("connect", {42: 7}, "connect"),
    Group("accept", {43: 7, 288: 7}, "accept, accept4"),
    Group("send", {44: 7, 46: 7, 307: 7}, "sendto, sendmsg, sendmmsg; a write on a socket is `write`"),
    Group("recv", {45: 7, 47: 7, 299: 7}, "recvfrom, recvmsg, recvmmsg; a read on a socket is `read`"),
    Group("poll", {7: 7, 23: 7, 232: 7, 270: 7, 271: 7, 281: 7, 441: 7}, "poll, select, epoll_wait and their variants"),
    Group("futex", {202: 7}, "futex: locks between threads, when they have to wait or wake"),
    Group("fork", {56: 7, 57: 7, 58: 7, 435: 7}, "clone, fork, vfork, clone3; in the parent"),
    Group("mmap", {9: 7, 11: 7, 12: 7}, "mmap, munmap, brk"),
)

NUMBER = {group.name: number for number, group in enumerate(GROUPS)}
"""Name to bit."""
