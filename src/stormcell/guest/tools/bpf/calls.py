"""The groups of system calls that a fault can mean, and the security hooks of the kernel that decide for each.

A group is every way to the same thing, whichever variant a C library uses: the hook lies behind all of them, io_uring
included. The order is that of `enum call` in guest/bpf/errno.bpf.c.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

FILE: Final = "file"
PEER: Final = "peer"


class Call(NamedTuple):
    """`about` says which filter applies: of files, of the socket's peer, or none."""

    name: str
    hooks: tuple[str, ...]
    about: Literal["file", "peer", ""]
    covers: str


CALLS: tuple[Call, ...] = (
    Call("open", ("file_open",), FILE,
         "open, openat, openat2, creat, open_by_handle_at, io_uring, and the kernel's own open of a program that is "
         "executed; not O_PATH. A file that O_CREAT makes is there before its open is refused: see `create`"),
    Call("read", ("file_permission",), FILE,
         "read, pread, readv, preadv, sendfile, splice, copy_file_range, io_uring, on files, pipes and sockets alike, "
         "and the kernel's own read of a program that is executed; not what is mapped into memory"),
    Call("write", ("file_permission",), FILE,
         "write, pwrite, writev, pwritev, sendfile, splice, copy_file_range, fallocate, io_uring; not what is mapped"),
    Call("readdir", ("file_permission",), FILE, "getdents, getdents64"),
    Call("create", ("path_mknod",), FILE, "open with O_CREAT of a file that is not there, creat, mknod"),
    Call("mkdir", ("path_mkdir",), FILE, "mkdir, mkdirat, io_uring"),
    Call("unlink", ("path_unlink",), FILE, "unlink, unlinkat, io_uring"),
    Call("rmdir", ("path_rmdir",), FILE, "rmdir, unlinkat with AT_REMOVEDIR, io_uring"),
    Call("rename", ("path_rename",), FILE, "rename, renameat, renameat2, io_uring; of either name"),
    Call("link", ("path_link",), FILE, "link, linkat, io_uring; of either name"),
    Call("symlink", ("path_symlink",), FILE, "symlink, symlinkat, io_uring"),
    Call("truncate", ("path_truncate",), FILE, "truncate, ftruncate, open with O_TRUNC"),
    Call("chmod", ("path_chmod",), FILE, "chmod, fchmod, fchmodat"),
    Call("chown", ("path_chown",), FILE, "chown, lchown, fchown, fchownat"),
    Call("stat", ("inode_getattr",), FILE, "stat, lstat, fstat, newfstatat, statx, io_uring; not access"),
    Call("readlink", ("inode_readlink",), FILE, "readlink, readlinkat"),
    Call("statfs", ("sb_statfs",), FILE, "statfs, fstatfs; of a path only when it is the root of its file system"),
    Call("lock", ("file_lock",), FILE, "flock, and fcntl with a lock command"),
    Call("mmap", ("mmap_file",), FILE, "mmap, with and without a file; not brk"),
    Call("mprotect", ("file_mprotect",), "", "mprotect, pkey_mprotect"),
    Call("ioctl", ("file_ioctl",), FILE, "ioctl; not of 32-bit programs, which have a hook of their own"),
    Call("exec", ("bprm_creds_for_exec",), FILE, "execve, execveat; a script counts once"),
    Call("fork", ("task_alloc",), "", "fork, vfork, clone, clone3, of a process"),
    Call("thread", ("task_alloc",), "", "clone, clone3, of a thread; the kernel's workers for io_uring too"),
    Call("kill", ("task_kill",), "", "kill, tkill, tgkill, pidfd_send_signal, rt_sigqueueinfo"),
    Call("mount", ("sb_mount", "move_mount"), FILE, "mount, move_mount"),
    Call("umount", ("sb_umount",), FILE, "umount, umount2"),
    Call("socket", ("socket_create",), "", "socket, socketpair, io_uring"),
    Call("bind", ("socket_bind",), PEER, "bind"),
    Call("connect", ("socket_connect",), PEER, "connect, io_uring"),
    Call("listen", ("socket_listen",), PEER, "listen"),
    Call("accept", ("socket_accept",), PEER,
         "accept, accept4, io_uring; the connection stays in the queue, and a try that finds none counts too"),
    Call("send", ("socket_sendmsg",), PEER,
         "send, sendto, sendmsg, sendmmsg, write on a socket, io_uring; not sendfile and splice to a socket"),
    Call("recv", ("socket_recvmsg",), PEER,
         "recv, recvfrom, recvmsg, recvmmsg, read on a socket, io_uring; a try that finds nothing counts too"),
)  # fmt: skip

NUMBER = {call.name: number for number, call in enumerate(CALLS)}
"""Name to bit."""


def hooks_of(calls: tuple[str, ...] | list[str]) -> list[str]:
    """Every hook that these need, once each."""
    return list(dict.fromkeys(hook for name in calls for hook in CALLS[NUMBER[name]].hooks))
