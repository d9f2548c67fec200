"""What PID 1 sets up before anything else runs: mounts, cgroups, names, devices. Each step may fail alone."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable

from stormcell.guest import network
from stormcell.guest.kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, mount, write_file

CGROUPS = "/sys/fs/cgroup"
AGENT = f"{CGROUPS}/stormcell/agent"
EXECS = f"{CGROUPS}/stormcell/exec"
SERVICES = f"{CGROUPS}/services"
STATE = "/run/stormcell"
VOLUMES = "/etc/stormcell/volumes.json"
NODES = "/etc/stormcell/nodes.json"
GUEST_FILE = f"{STATE}/guest.pyz"
EXPEDITED = "/sys/kernel/rcu_expedited"

_QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC
_MOUNTS = (
    ("proc", "/proc", "proc", _QUIET, ""),
    ("sysfs", "/sys", "sysfs", _QUIET, ""),
    ("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=755"),
    ("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=620,gid=5,ptmxmode=666"),
    ("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"),
    ("mqueue", "/dev/mqueue", "mqueue", _QUIET, ""),
    ("run", "/run", "tmpfs", MS_NOSUID, "mode=755"),
    ("cgroup2", CGROUPS, "cgroup2", _QUIET, "favordynmods"),
    ("debugfs", "/sys/kernel/debug", "debugfs", _QUIET, ""),
    ("tracefs", "/sys/kernel/tracing", "tracefs", _QUIET, ""),
    ("bpf", "/sys/fs/bpf", "bpf", _QUIET, "mode=700"),
)
# favordynmods: a process that moves to its cgroup does not wait for an RCU grace period, 10-20 ms under emulation
# (Documentation/admin-guide/cgroup-v2.rst, since Linux 6.0).
_FOLDERS = ((f"{STATE}/bin", 0o755), (f"{STATE}/log", 0o755), ("/run/lock", 0o1777), ("/run/user", 0o755))
_LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
)
_WRAPPER = f'#!/bin/sh\nexec /usr/bin/python3 -I -S {GUEST_FILE} "$@"\n'


def set_up(report: Callable[[str], None]) -> None:
    """All of it. `report` is told what could not be done."""
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 524288))  # as systemd does: some servers ask for many
    for step in (
        _mounts,
        _grace_periods,
        _files,
        _cgroups,
        _names,
        _ports,
        network.loopback_up,
        _network,
        _volumes,
        _nodes,
    ):
        try:
            step()
        except (OSError, ValueError, LookupError) as error:
            report(f"{getattr(step, '__name__', 'network')}: {error}")


def _mounts() -> None:
    mounted = set()
    for source, target, kind, flags, data in _MOUNTS:
        if target != "/proc":
            with open("/proc/self/mounts") as file:
                mounted = {line.split()[1] for line in file}
        elif os.path.exists("/proc/self/mounts"):
            continue
        if target not in mounted:
            try:
                os.makedirs(target, exist_ok=True)
                mount(source, target, kind, flags, data)
            except OSError:  # a file system that this kernel was built without
                continue


def _grace_periods() -> None:
    """To take a hook out of the kernel (tracepoint, kprobe, device) waits for RCU grace periods, each 20-60 ms.

    Expedited ones take 0.1 ms, as while any Linux boots or suspends (rcu_expedite_gp in kernel/rcu/update.c): only
    the wait is shorter.
    """
    if os.path.exists(EXPEDITED):
        write_file(EXPEDITED, "1")


def _files() -> None:
    for path, mode in _FOLDERS:
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
    for target, link in _LINKS:
        if not os.path.lexists(link):
            os.symlink(target, link)
    write_file(f"{STATE}/bin/stormcell-guest", _WRAPPER)
    os.chmod(f"{STATE}/bin/stormcell-guest", 0o755)


def _cgroups() -> None:
    with open(f"{CGROUPS}/cgroup.controllers") as file:
        controllers = file.read().split()
    wanted = " ".join(f"+{name}" for name in controllers)
    for folder in (CGROUPS, f"{CGROUPS}/stormcell", EXECS, SERVICES):
        os.makedirs(folder, exist_ok=True)
        write_file(f"{folder}/cgroup.subtree_control", wanted)
    os.makedirs(AGENT, exist_ok=True)


def _names() -> None:
    """The machine's name and id. The id lives in memory from here on, so that a restored guest can be given its own."""
    write_file("/proc/sys/kernel/sysrq", "1")
    try:
        with open("/etc/hostname") as file:
            name = file.read().strip()
    except OSError:
        name = ""
    socket.sethostname(name or "stormcell")
    try:
        with open("/etc/machine-id") as file:
            machine_id = file.read().strip()
    except OSError:
        machine_id = ""
        write_file("/etc/machine-id", "")
    if len(machine_id) != 32:
        machine_id = os.urandom(16).hex()
    write_file("/run/machine-id", machine_id + "\n")
    mount("/run/machine-id", "/etc/machine-id", "none", MS_BIND)


def _network() -> None:
    if os.path.exists("/sys/class/net/eth0"):  # a sealed machine has no card
        network.configure("eth0")


def _volumes() -> None:
    """The data volumes of the template, before anybody writes below their paths."""
    if os.path.exists(VOLUMES):
        from stormcell.guest.tools.block import volume  # nobody else pays for it

        volume.load()


def _nodes() -> None:
    """Those of the experiment, when this is a boot after a crash."""
    if os.path.exists(NODES):
        from stormcell.guest.tools.nodes import making  # nobody else pays for it

        making.make(making.saved())


def _ports() -> None:
    """/dev/virtio-ports/NAME, as udev would make them. A port's name comes a moment after its device."""
    base = "/sys/class/virtio-ports"
    os.makedirs("/dev/virtio-ports", exist_ok=True)
    patience = time.monotonic() + 3
    seen: dict[str, str] = {}
    while time.monotonic() < patience:
        devices = os.listdir(base) if os.path.isdir(base) else []
        names = {device: _port_name(f"{base}/{device}/name") for device in devices}
        if names and names == seen and all(names.values()):
            break
        seen = names
        time.sleep(0.02)
    for device, name in seen.items():
        if name and not os.path.lexists(f"/dev/virtio-ports/{name}"):
            os.symlink(f"../{device}", f"/dev/virtio-ports/{name}")


def _port_name(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
