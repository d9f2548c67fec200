"""The initramfs: busybox, the virtio modules in load order, the guest file. It finds the disk and hands over."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stormcell.machine.cpio import Entry, archive
from stormcell.machine.durable import lock, write_atomically
from stormcell.machine.guestfile import guest_pyz
from stormcell.machine.host import tool
from stormcell.machine.kernel import Kernel, dependencies, load_order
from stormcell.spec.errors import HostError, MissingTool
from stormcell.spec.home import Home, private_folder

MODULES = ["virtio_mmio", "virtio_console"]
LIVE = ["virtio_blk", "virtio_net", "virtio-rng", "pvpanic-mmio"]
SEALED = ["nd_e820", "nd_pmem"]
"""Of a sealed machine: its disk is persistent memory, and a panic must not make QEMU stop (guest/sealed/stop.py)."""

INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
k=l d=/dev/vda
$b grep -q memmap= /proc/cmdline && k=s d=/dev/pmem0
for m in /m/* /$k/*; do $b insmod $m; done
n=0
until $b mount -t ext4 $d /root; do
  n=$((n + 1)); [ $n -gt 50 ] && { echo "stormcell: no disk"; $b reboot -f; }
  $b usleep 100000
done
$b mount -t tmpfs -o mode=755,nosuid run /root/run
$b mkdir -p /root/run/stormcell
$b cp /guest.pyz /root/run/stormcell/guest.pyz
$b mount --move /dev /root/dev
$b umount /sys
$b umount /proc
exec $b switch_root /root /usr/bin/python3 -I -S /run/stormcell/guest.pyz init
"""

PROBE_LINE = "stormcell: this guest runs"
PROBE_INIT = f"""\
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
echo "{PROBE_LINE}" >/dev/ttyS0
exec /bin/busybox reboot -f
"""


def busybox() -> bytes:
    """The host's static busybox. Raises MissingTool when it is absent or needs libraries."""
    program = tool("busybox", "busybox-static").read_bytes()
    # a dynamic program names its loader in a PT_INTERP header, near its start
    if b"/lib64/ld-linux" in program[:4096]:
        raise MissingTool("busybox is there, but not the static one", remedy="apt-get install busybox-static")
    return program


def _base(init: str) -> list[Entry]:
    folders = [Entry.folder(name) for name in ("bin", "dev", "l", "m", "proc", "root", "s", "sys")]
    return [*folders, Entry.file("bin/busybox", busybox(), 0o755), Entry.file("init", init.encode(), 0o755)]


def probe_initramfs() -> bytes:
    """A guest that says one line on its console and reboots: it proves that an accelerator runs a kernel."""
    return archive(_base(PROBE_INIT))


def guest_initramfs(kernel: Kernel, pyz: bytes) -> bytes:
    """The whole archive, uncompressed: emulated decompression costs more than QEMU copying 5 MB."""
    table = dependencies(kernel.modules)
    entries = _base(INIT)
    common = load_order(table, MODULES)
    own = [[path for path in load_order(table, names) if path not in common] for names in (LIVE, SEALED)]
    for folder, order in (("m", common), ("l", own[0]), ("s", own[1])):
        for number, path in enumerate(order, start=10):
            entries.append(Entry.file(f"{folder}/{number}-{Path(path).name}", (kernel.modules / path).read_bytes()))
    entries.append(Entry.file("guest.pyz", pyz))
    return archive(entries)


def ensure_initramfs(home: Home, kernel: Kernel) -> Path:
    """The initramfs of this kernel and these guest sources, as a file named by its digest."""
    content = guest_initramfs(kernel, guest_pyz())
    folder = private_folder(home.cache / "initramfs")
    path = folder / f"{hashlib.sha256(content).hexdigest()}.cpio"
    try:
        if path.stat().st_size == len(content):
            return path
        with lock(folder / "lock"):
            write_atomically(path, content)
    except FileNotFoundError:
        with lock(folder / "lock"):
            write_atomically(path, content)
    except OSError as error:
        raise HostError("the initramfs cannot be written", where=str(path), detail=str(error)) from error
    return path
