"""What a node sees of the file system: everything, but /run, /tmp, /sys, its names, and folders of its own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence

from stormcell.guest import nodes
from stormcell.guest.kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, detach, mount, write_file

STORE = "/var/lib/stormcell/nodes"
"""The folders that a node has for itself are kept there, on the disk, and so outlive a crash of the machine."""
_REC, _PRIVATE = 0x4000, 0x40000
_BELOW_SYS = ("fs/cgroup", "fs/bpf", "kernel/debug", "kernel/tracing")
_KEPT = "stormcell"
"""The folder of /run that is the machine's in every node: receipts, marks, the guest file."""


def set_up(node: str, own: Sequence[str]) -> None:
    """In the node's new mount namespace. Raises OSError, LookupError for a folder that is not there."""
    mount("none", "/", "", _REC | _PRIVATE)
    place = f"{nodes.FOLDER}/{node}"
    _sys(f"{place}/sys")
    for path in own:
        _own(node, path)
    _tmp(node)
    for name in ("hosts", "hostname"):
        if os.path.exists(f"/etc/{name}"):
            mount(f"{place}/{name}", f"/etc/{name}", "", MS_BIND)
    _run(f"{place}/run")  # the last: it hides `place`


def names(addresses: dict[str, str], etc_hosts: str) -> str:
    """The text of a hosts file in which every node is found."""
    return "".join([etc_hosts.rstrip("\n"), "\n", *(f"{address} {name}\n" for name, address in addresses.items())])


def _sys(aside: str) -> None:
    """A sysfs shows the network devices of the namespace in which it was mounted."""
    os.makedirs(aside)
    mount("sysfs", aside, "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for below in _BELOW_SYS:
        if os.path.ismount(f"/sys/{below}"):
            mount(f"/sys/{below}", f"{aside}/{below}", "", MS_BIND)
    mount(aside, "/sys", "", MS_BIND | _REC)
    detach(aside)


def _run(aside: str) -> None:
    """Empty, but with the folders that the machine has there: a server's socket has its place, and no other's."""
    os.makedirs(aside)
    mount("run", aside, "tmpfs", MS_NOSUID, "mode=755")
    for entry in os.scandir("/run"):
        if entry.is_dir(follow_symlinks=False):
            _folder_like(entry.path, f"{aside}/{entry.name}")
    mount(f"/run/{_KEPT}", f"{aside}/{_KEPT}", "", MS_BIND)
    mount(aside, "/run", "", MS_BIND | _REC)


def _tmp(node: str) -> None:
    kept = f"{STORE}/{node}/tmp"
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept)
    os.chmod(kept, 0o1777)
    mount(kept, "/tmp", "", MS_BIND)


def _own(node: str, path: str) -> None:
    """The node's copy of a folder, from what the machine has there when it is made for the first time."""
    if not os.path.isdir(path):
        raise LookupError(f"node '{node}': the folder '{path}', which it is to have for itself, is not in the machine")
    kept = f"{STORE}/{node}/own{path}"
    if not os.path.isdir(kept):
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        done = subprocess.run(["cp", "-a", "--", path, f"{kept}.new"], capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise OSError(f"node '{node}': '{path}' cannot be copied: {done.stderr.strip()[-200:]}")
        os.rename(f"{kept}.new", kept)
    mount(kept, path, "", MS_BIND)


def _folder_like(model: str, path: str) -> None:
    found = os.stat(model)
    os.mkdir(path)
    os.chown(path, found.st_uid, found.st_gid)
    os.chmod(path, stat.S_IMODE(found.st_mode))


def write_names(node: str, hosts: str) -> None:
    """The files that are put over those of /etc."""
    write_file(f"{nodes.FOLDER}/{node}/hosts", hosts)
    write_file(f"{nodes.FOLDER}/{node}/hostname", f"{node}\n")
