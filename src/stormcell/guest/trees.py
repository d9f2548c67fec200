"""Process trees that can be killed whole: a cgroup in the guest, a mark in the environment elsewhere."""

from __future__ import annotations

import os
import secrets
import signal
from typing import Protocol

from stormcell.guest import nodes

MARK = "STORMCELL_EXEC"
OF_NODE = ("setup", "load")
"""What a run starts that is a part of the node in which it starts it."""


class Tree(Protocol):
    """Everything that one command starts."""

    def enter(self) -> None:
        """Called in the child, before it is anything else."""

    def entrance(self) -> int:
        """A descriptor of the cgroup's folder, for clone3(2); -1 when there is none to be entered."""

    def environment(self) -> dict[str, str]:
        """What the command's environment must hold so that its tree is found."""

    def kill(self, main: int | None) -> None:
        """SIGKILL to all; `main` is the first process of the tree while it is not yet reaped."""

    def pids(self) -> list[int]:
        """Who is left."""

    def remove(self) -> bool:
        """Let go of the tree; False when processes are left in it."""


class Cgroup:
    """A cgroup v2 folder of its own. cgroup.kill also reaches a grandchild in another session."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    @classmethod
    def make(cls, path: str) -> Cgroup:
        """Raises OSError."""
        os.mkdir(path)
        return cls(path)

    def enter(self) -> None:
        """Move the calling process in. The group may have been made long before, and removed by somebody since."""
        try:
            _write(f"{self.path}/cgroup.procs", "0")
        except FileNotFoundError:
            os.mkdir(self.path)
            _write(f"{self.path}/cgroup.procs", "0")

    def entrance(self) -> int:
        """Opened once, closed by `remove`. Raises OSError."""
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return self._fd

    def environment(self) -> dict[str, str]:
        """Nothing: membership is inherited by the kernel."""
        return {}

    def kill(self, main: int | None) -> None:
        """One write kills all, forks under way included (Documentation/admin-guide/cgroup-v2, cgroup.kill)."""
        _write(f"{self.path}/cgroup.kill", "1")

    def pids(self) -> list[int]:
        """Zombies are not listed."""
        with open(f"{self.path}/cgroup.procs", "rb") as file:
            return [int(line) for line in file]

    def remove(self) -> bool:
        """A folder made below it by the command goes too."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        try:
            os.rmdir(self.path)
        except OSError:
            if self.pids():
                return False
            for folder, _, _ in os.walk(self.path, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    return False
        return True


class MarkedTree:
    """Without a cgroup: processes are found in /proc by a mark in the environment that children inherit."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)

    def enter(self) -> None:
        """Nothing: the mark comes with exec."""

    def entrance(self) -> int:
        """None."""
        return -1

    def environment(self) -> dict[str, str]:
        """The mark."""
        return {MARK: self._mark}

    def kill(self, main: int | None) -> None:
        """Repeated until a look finds nobody, since a process may fork while we look."""
        if main is not None:
            os.kill(main, signal.SIGKILL)
        for _ in range(20):
            found = self.pids()
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            if not found:
                return

    def pids(self) -> list[int]:
        """Every process whose environment carries the mark; zombies have none."""
        wanted = f"{MARK}={self._mark}".encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if wanted in file.read().split(b"\0"):
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def remove(self) -> bool:
        """Nothing to remove."""
        return True


class Single:
    """A helper of ours that starts nothing."""

    def enter(self) -> None:
        """It stays where the agent is."""

    def entrance(self) -> int:
        """None."""
        return -1

    def environment(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def kill(self, main: int | None) -> None:
        """SIGKILL."""
        if main is not None:
            os.kill(main, signal.SIGKILL)

    def pids(self) -> list[int]:
        """Nobody but the helper itself."""
        return []

    def remove(self) -> bool:
        """Nothing to remove."""
        return True


class Forest:
    """Makes a tree for each command: cgroups below `root`, or marks when `root` is None.

    Who calls `tend` while nobody waits has the next command's group made ahead.
    """

    def __init__(self, root: str | None) -> None:
        self._root = root
        self._next = 1
        self._full: list[Tree] = []
        self._ready: Tree | None = None

    def plant(self, part: str = "", node: str | None = None) -> Tree:
        """A new, empty tree; `part`, a word, is told by its name. Raises OSError when the cgroup cannot be made.

        What belongs to a node (a setup command, a load) is in the node's group: its limits are for it, too.
        """
        if self._root is None:
            return MarkedTree()
        if node is not None and part in OF_NODE:
            self._sweep()
            return self._make(f"{part}-", f"{nodes.cgroup(node)}/{nodes.COMMANDS}")
        if part:
            self._sweep()
            return self._make(f"{part}-")
        tree, self._ready = self._ready, None
        if tree is None:
            self._sweep()
            tree = self._make()
        return tree

    def tend(self) -> None:
        """Let go of what has become empty, and make the next tree."""
        self._sweep()
        if self._ready is None and self._root is not None:
            try:
                self._ready = self._make()
                self._ready.entrance()
            except OSError:
                pass  # whoever needs it is told

    def _sweep(self) -> None:
        self._full = [tree for tree in self._full if not tree.remove()]

    def _make(self, part: str = "", root: str | None = None) -> Tree:
        number, self._next = self._next, self._next + 1
        # several processes plant below one root; the fixed width keeps their numbers apart
        return Cgroup.make(f"{root or self._root}/{part}{os.getpid()}{number:08}")

    def fell(self, tree: Tree) -> None:
        """The command is over; what it left running in the background keeps its cgroup."""
        if not tree.remove():
            self._full.append(tree)

    def clear(self) -> None:
        """Kill what an earlier agent left below the root."""
        if self._root is None:
            return
        for entry in list(os.scandir(self._root)):
            if entry.is_dir() and entry.name.isdigit():
                left = Cgroup(entry.path)
                left.kill(None)
                self._full.append(left)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
