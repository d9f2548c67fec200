"""MachineSpec in, QEMU's command line out. Pure: the golden tests hold it word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.model import Forward, MachineSpec

SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
CPU = {
    # emulated, `rep movsb` goes byte by byte; without the flag that calls it fast, the guest copies in words
    "tcg": "max,-erms",
    # QEMU aborts on IA32_ARCH_CAPABILITIES (MSR 0x10a) where the host is a guest itself and its hypervisor refuses it;
    # a microVM that runs nobody else's code needs no list of the CPU's mitigations
    "kvm": "host,-arch-capabilities",
}
NETWORK = "n0"
"""The id of the network back end; the guest's one card hangs on it."""
DISK = "d0"
"""The node of the disk's overlay. A fork puts another on top of it: `Machine.disk_node` tells which one is."""
LATER = "later"
"""The empty disk that a waiting machine has until it is told which one to go on with."""
CARD = "disk0"
"""The id of the guest's block device."""
CONSOLE_BYTES = 256 * 1024
"""The console is kept in a ring inside QEMU and read over QMP: an endless writer fills neither the host's disk nor
its memory, nobody has to read along, and the last bytes are the ones that stay. A file would need a watchdog, a pipe
a reader that outlives us, and a file-size limit would hit the disk overlay too."""


@dataclass(frozen=True)
class Ends:
    """Numbers, in the child, of the listening sockets that QEMU inherits."""

    qmp: Sequence[int]
    agent: Sequence[int]


def comma(path: Path) -> str:
    """A path as QEMU's option parser takes it: a comma is doubled."""
    return str(path).replace(",", ",,")


def emulated(tsc_khz: int) -> list[str]:
    """Words for an emulated guest's kernel.

    It sometimes cannot calibrate the TSC against the PIT and hangs for good; telling it the frequency (kHz) cures
    that, and `no_timer_check` skips a check that a busy host fails. QEMU keeps translated code by its virtual address
    (QEMU 7.2, tb_htable_lookup): with libraries at another place in every process, each start of a program would have
    its loader and C library translated anew, 19 ms in place of 3.5. And no scheduler group for each session: a command
    is in a cgroup of its own.
    """
    return ["tsc=reliable", f"tsc_early_khz={tsc_khz}", "no_timer_check", "norandmaps", "noautogroup"]


def command_line(spec: MachineSpec, tsc_khz: int) -> str:
    """The guest kernel's command line."""
    words = ["console=ttyS0", "quiet", "reboot=t", "panic=1", "random.trust_cpu=on", "lsm=lockdown,capability,bpf"]
    if spec.shape.accel == "tcg":
        words += emulated(tsc_khz)
    return " ".join([*words, *spec.command_line])


def forward_option(forward: Forward) -> str:
    """One `hostfwd=`; QEMU takes port 0 as any free one."""
    return f"hostfwd=tcp:127.0.0.1:{forward.host_port}-:{forward.guest_port}"


def qemu_argv(qemu: Path, spec: MachineSpec, ends: Ends, *, tsc_khz: int, incoming: bool) -> list[str]:
    """The whole command line. `incoming` waits for a disk and a device state instead of booting."""
    shape = spec.shape
    accel = "tcg,thread=multi" if shape.accel == "tcg" else "kvm"
    share = "on" if spec.share else "off"
    network = ",".join(["user", f"id={NETWORK}", "restrict=on", *(forward_option(f) for f in spec.forwards)])
    # fmt: off
    argv = [
        str(qemu),
        "-name", spec.name,
        "-nodefaults", "-no-user-config", "-nographic",
        "-sandbox", SANDBOX,
        "-M", "microvm,rtc=on,memory-backend=mem",
        "-accel", accel,
        "-cpu", CPU[shape.accel],
        "-smp", str(shape.vcpus),
        "-m", str(shape.memory_mib),
        "-object", f"memory-backend-file,id=mem,size={shape.memory_mib}M,mem-path={comma(spec.memory)},share={share}",
        # the guest's end stops the machine instead of ending QEMU: its console and its reason are still to be read
        "-action", "reboot=shutdown,shutdown=pause,panic=pause",
        # QEMU reads both into memory of its own, 14 MB for each machine; what goes on from a state never asks for them
        *([] if incoming else ["-kernel", str(spec.kernel), "-initrd", str(spec.initrd)]),
        *([] if incoming else ["-append", command_line(spec, tsc_khz)]),
        "-chardev", f"ringbuf,id=console,size={CONSOLE_BYTES}",
        "-serial", "chardev:console",
        "-device", "pvpanic",
        "-device", "virtio-rng-device",
        "-netdev", network,
        # nobody on this network has to learn where a restored card is; the guest's announcement costs it 10 ms
        "-device", f"virtio-net-device,netdev={NETWORK},guest_announce=off",
        "-device", f"virtio-serial-device,max_ports={len(ends.agent) + 1}",
    ]
    argv += [*agent_ports(ends), *monitors(ends)]
    argv += ["-blockdev", _disk_option(None if incoming else spec.disk)]
    argv += ["-device", f"virtio-blk-device,id={CARD},drive={LATER if incoming else DISK}"]
    # the state of a fork comes without the section that this would add; template states do as well, so that any
    # waiting machine can go on from either (their QEMU and its arguments are compared by digest)
    argv += ["-global", "migration.send-configuration=off"]
    # fmt: on
    if incoming:
        # a state that was saved while the guest ran would have it run as soon as it is loaded
        argv += ["-incoming", "defer", "-S"]
    return argv


def agent_ports(ends: Ends) -> list[str]:
    """The channels of the guest's agent, each on a socket of ours."""
    argv = []
    for index, fd in enumerate(ends.agent):
        argv += ["-chardev", f"socket,id=a{index},fd={fd},server=on,wait=off"]
        argv += ["-device", f"virtserialport,chardev=a{index},name=agent.{index}"]
    return argv


def monitors(ends: Ends) -> list[str]:
    """QEMU's monitors, each on a socket of ours."""
    argv = []
    for index, fd in enumerate(ends.qmp):
        argv += ["-chardev", f"socket,id=q{index},fd={fd},server=on,wait=off"]
        argv += ["-mon", f"chardev=q{index},mode=control"]
    return argv


def _disk_option(disk: Path | None) -> str:
    """A killed VMM loses no page that the guest flushed: QEMU hands its qcow2 tables to the host's page cache on a
    guest flush even so; only a power cut of the host could, and no sandbox outlives that."""
    if disk is None:
        return f"driver=null-co,node-name={LATER},read-zeroes=on,size={1 << 30}"
    return (
        f"driver=qcow2,node-name={DISK},cache.direct=off,cache.no-flush=on,file.driver=file,"
        f"file.cache.direct=off,file.cache.no-flush=on,file.filename={comma(disk)}"
    )


def overlay_node(name: str, disk: Path) -> dict[str, object]:
    """The same as an argument of QMP's `blockdev-add`."""
    cache = {"direct": False, "no-flush": True}
    file = {"driver": "file", "filename": str(disk), "cache": cache}
    return {"driver": "qcow2", "node-name": name, "cache": cache, "file": file}
