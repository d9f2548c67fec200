"""Entering a node: a part of the guest with a network, a host name, mounts and a cgroup of its own.

tools/nodes/ makes them. What is run in one finds its name in the environment, and the tools of faults then mean the
processes of that node alone.
"""

from __future__ import annotations

import ctypes
import os

FOLDER = "/run/stormcell/nodes"
"""Holds the namespaces of each node."""
CGROUPS = "/sys/fs/cgroup/nodes"
COMMANDS = "commands"
"""The group, in that of a node, of what a run starts there: setup commands and loads."""
VARIABLE = "STORMCELL_NODE"
KINDS = (("net", 0x40000000), ("uts", 0x04000000), ("mnt", 0x00020000))
"""The namespaces and their CLONE_ flags. Mounts come last: after them, paths mean something else."""
_CLONE_FS = 0x00000200
_libc = ctypes.CDLL(None, use_errno=True)


def current() -> str | None:
    """The node that this process was started in."""
    return os.environ.get(VARIABLE)


def cgroup(node: str) -> str:
    """The folder of its cgroup; services, and COMMANDS, are below it."""
    return f"{CGROUPS}/{node}"


def service_key(name: str, node: str | None) -> str:
    """What the supervisor calls a service: those of nodes have a name that no other can have."""
    return name if node is None else f"{name}@{node}"


def held(node: str, kind: str) -> str:
    """The file that keeps a namespace of a node."""
    return f"{FOLDER}/{node}/{kind}"


def opened(node: str) -> list[int]:
    """Descriptors of its namespaces, in the order of KINDS; to be closed. Raises OSError when it is not there."""
    found: list[int] = []
    try:
        for kind, _ in KINDS:
            found.append(os.open(held(node, kind), os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        close(found)
        raise OSError(error.errno, f"there is no node '{node}' in this machine ({error.strerror})") from None
    return found


def close(descriptors: list[int]) -> None:
    """Of `opened`."""
    for fd in descriptors:
        os.close(fd)


def enter(node: str) -> None:
    """The calling thread is in that node from now on; its working folder is `/`. Raises OSError.

    Of a process with several threads the others stay where they are: setns(2) takes a thread into a mount namespace
    when it shares its root and working folder with nobody.
    """
    descriptors = opened(node)
    try:
        _check(_libc.unshare(_CLONE_FS))
        for fd, (_, flag) in zip(descriptors, KINDS, strict=True):
            _check(_libc.setns(fd, flag))
    finally:
        close(descriptors)


def unshare() -> None:
    """New namespaces for the calling process, which has one thread. Raises OSError."""
    _check(_libc.unshare(sum(flag for _, flag in KINDS)))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
