"""Faults on system calls and files that were not what they were said to be: reports 24 and 49.

24: https://github.com/iovisor/bcc/issues/2485 and https://github.com/cilium/ebpf/issues/664,
49: https://github.com/chaos-mesh/chaos-mesh/issues/3424 and https://github.com/chaos-mesh/chaos-mesh/issues/4447
"""

import json

import pytest

from stormcell.spec.errors import SpecError
from tests.guest.faults.fault_trial import until

GROUP = "/sys/fs/cgroup/services/victim"
JOIN = f"mkdir -p {GROUP}; echo $$ > {GROUP}/cgroup.procs;"
TOOL = "python3 /root/syscall_tool.py"
INSTANCE = "/sys/kernel/tracing/instances/naive"


def of_one_variant(variant):
    """The report's way: a hook on one system call. What it meets is counted by the kernel's tracer."""
    event = f"{INSTANCE}/events/syscalls/sys_enter_{variant}"
    return {
        "kind": "custom.commands",
        "apply": f"mkdir {INSTANCE}; echo 'hist:keys=common_pid.execname' > {event}/trigger",
        "undo": f"rmdir {INSTANCE} 2> /dev/null || true",
        "shows": f"grep -q '^hist:' {event}/trigger",
        "counter": f"awk '/hitcount:.*[0-9]/ && /victim24/ {{n += $NF}} END {{print n + 0}}' {event}/hist || echo 0",
    }


def hits(trial):
    told = json.loads(trial.receipt.readings["after"].outputs["bpf"].out)
    return [(hit["comm"], hit["call"], hit["errno"], hit["count"]) for hit in told["hits"]]


@pytest.mark.parametrize("way", ["naive", "ours"])
@pytest.mark.parametrize(
    ("hooked", "used"),
    [("open", "cat"), ("open", "openat"), ("openat", "io_uring"), ("openat", "open32"),
],
)  # fmt: skip
def test_24_a_call_has_variants_and_the_program_uses_another(bench, way, hooked, used):
    bench.run(f"echo hello > /srv/x24; mkdir -p {GROUP}; cp /usr/bin/cat /srv/victim24")
    does = "exec /srv/victim24 /srv/x24" if used == "cat" else f"exec {TOOL} only_variant {used} /srv/x24"
    if way == "naive":
        trial = bench.attempt(of_one_variant(hooked), under=[f"{JOIN} {does}"])
        assert trial.said[0] in ("hello\n", f"{used} OK\n"), "nothing failed"
        assert (trial.receipt.in_force, trial.receipt.clean) == (True, True)
        assert trial.acted == 0, "void: nobody made that system call"
        return
    spec = {"kind": "syscall.errno", "service": "victim", "call": "open", "errno": "EACCES", "path": "/srv/x24"}
    trial = bench.attempt({**spec, "limit": 1}, under=[f"{JOIN} {does}", "cat /srv/x24"])
    trial.proven()
    assert "Permission denied" in trial.said[0] or trial.said[0] == f"{used} EACCES\n"
    assert "denied" not in trial.said[1]
    assert trial.acted == 1
    assert hits(trial) == [("victim24", "open", "EACCES", 1)]


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_24_what_this_kernel_lacks_is_said_before_anything_is_done(bench, way):
    if way == "naive":
        naive = of_one_variant("open") | {"apply": "grep -q __x64_sys_open /sys/kernel/debug/error_injection/list"}
        trial = bench.attempt(naive, under=["cat /etc/hostname"])
        assert trial.receipt.apply_ok is not True
        assert "error_injection/list: No such file or directory" in trial.stop
        return
    for kind in ("syscall.override", "syscall.failslab"):
        with pytest.raises(SpecError, match=r"unavailable here: .* need.* CONFIG_F"):
            bench.attempt({"kind": kind})


DISK = "/srv/disk49"
DISK_FILE = "/var/disk49.img"
CHECKS = (
    f"stat -f {DISK} > /dev/null && echo new > {DISK}/new && sync {DISK}/new && cat {DISK}/new && rm {DISK}/new; "
    f"sync; cp {DISK_FILE} {DISK_FILE}.copy; e2fsck -fn {DISK_FILE}.copy > /dev/null 2>&1; echo fsck $?"
)


@pytest.fixture
def disk(bench):
    """A small file system of its own, and a process that has a file on it open."""
    make = (
        f"truncate -s 8M {DISK_FILE}; mkfs.ext4 -q {DISK_FILE}; mkdir -p {DISK}; mount -o loop,sync {DISK_FILE} {DISK}"
    )
    bench.run(f"modprobe -a loop fuse; {make}; echo old > {DISK}/old")
    yield bench
    bench.run(f"while umount -l {DISK} 2> /dev/null; do :; done; rm -f {DISK_FILE}*")


FORGET = "rm -f /srv/go* /srv/said"
KEEPER = f"{JOIN} exec {TOOL} keeper {DISK}/old /srv/go > /srv/said 2>&1"
KEEPS = "[ -e /srv/go.awaited ]"
SAID = until("[ -s /srv/said ]")


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_49_recovery_leaves_no_dead_mount(disk, way):
    """IOChaos: a FUSE file system over the folder; the recovery ends its server and looks no further."""
    if way == "ours":
        spec = {"kind": "file.errno", "service": "victim", "path": DISK, "operation": "stat", "errno": "EIO"}
        disk.run(f"{JOIN} true")
        trial = disk.attempt(spec, under=[f"{JOIN} stat {DISK}/old"])
        trial.proven()
        assert "Input/output error" in trial.said[0]
        assert disk.run(f"{JOIN} {CHECKS}") == "new\nfsck 0\n"
        return
    showing = f"grep -q ' {DISK} fuse' /proc/mounts"
    naive = {
        "kind": "custom.commands",
        "apply": f"{TOOL} fuse {DISK} > /dev/null 2>&1 & echo $! > /run/fuse.pid; "
                 f"{until(showing)}",
        "undo": "kill -9 $(cat /run/fuse.pid)",
        "shows": showing,
        "counter": "cat /srv/fuse.asked || echo 0",
    }  # fmt: skip
    trial = disk.attempt(naive, under=[f"stat {DISK} > /dev/null; true"])
    assert "Transport endpoint is not connected" in disk.run(f"ls {DISK} 2>&1; true")
    assert trial.receipt.clean is False, "what the kernel still shows is no clean undo"


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "file.errno", "operation": ["read", "write"], "errno": "EIO"},
        {"kind": "file.corrupt", "bytes": 4},
        {"kind": "file.delay", "operation": ["read", "write"], "delay": "50ms"},
    ],
    ids=lambda spec: spec["kind"],
)
def test_49_ours_mounts_nothing_and_open_files_live_on(disk, spec):
    under = [f"touch /srv/go; {SAID}; cat /srv/said"]
    holders = "/sys/fs/cgroup/stormcell/faults/fault/cgroup.procs"
    under += [f"kill -9 $(cat {holders}); sleep 0.2"] if spec["kind"] == "file.delay" else []
    mounts = disk.run("cat /proc/mounts")
    trial = disk.attempt({**spec, "service": "victim", "path": DISK}, setup=[FORGET], loads=[KEEPER], ready=KEEPS,
                         under=under)  # fmt: skip
    assert trial.receipt.clean
    if spec["kind"] != "file.delay":  # whose tracer was killed: it is no longer in force
        trial.proven()
    assert disk.run("cat /proc/mounts") == mounts
    assert disk.run(f"{JOIN} {CHECKS}") == "new\nfsck 0\n"
    met = {"file.errno": "EIO", "file.corrupt": "wrong", "file.delay": "late"}[spec["kind"]]
    assert trial.said[0].split() == [met], "the file was open before the act"


def test_49_ours_the_same_open_file_reads_right_afterwards(disk):
    spec = {"kind": "file.errno", "service": "victim", "path": DISK, "operation": "read", "errno": "EIO"}
    disk.put("/srv/keeper.sh", KEEPER.replace(" keeper ", " keeper_again "))
    disk.run(f"{FORGET}; sh /srv/keeper.sh & {until(KEEPS)}")
    disk.attempt(spec, under=[f"touch /srv/go; {SAID}"]).proven()
    both = until("[ $(wc -l < /srv/said) = 2 ]")
    assert disk.run(f"touch /srv/go2; {both}; cat /srv/said; {FORGET}").split() == ["EIO", "right"]
