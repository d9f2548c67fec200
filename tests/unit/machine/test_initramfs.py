import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import stormcell.guest
from stormcell.machine.cpio import Entry, archive
from stormcell.machine.guestfile import guest_pyz
from stormcell.machine.initramfs import PROBE_INIT, guest_initramfs, probe_initramfs
from stormcell.machine.kernel import Kernel, _unwanted, dependencies, load_order
from stormcell.spec.errors import HostError

MODULES = {
    "kernel/drivers/virtio/virtio.ko": [],
    "kernel/drivers/virtio/virtio_ring.ko": [],
    "kernel/drivers/virtio/virtio_mmio.ko": ["virtio/virtio.ko", "virtio/virtio_ring.ko"],
    "kernel/drivers/block/virtio_blk.ko": ["virtio/virtio.ko", "virtio/virtio_ring.ko"],
    "kernel/drivers/net/virtio_net.ko": ["virtio/virtio.ko"],
    "kernel/drivers/char/virtio_console.ko": ["virtio/virtio.ko"],
    "kernel/drivers/char/hw_random/virtio-rng.ko": ["virtio/virtio.ko"],
    "kernel/drivers/misc/pvpanic/pvpanic.ko": [],
    "kernel/drivers/misc/pvpanic/pvpanic-mmio.ko": ["misc/pvpanic/pvpanic.ko"],
}
SEALED = {
    "kernel/drivers/nvdimm/libnvdimm.ko": [],
    "kernel/drivers/nvdimm/nd_e820.ko": ["nvdimm/libnvdimm.ko"],
    "kernel/drivers/nvdimm/nd_pmem.ko": ["nvdimm/libnvdimm.ko"],
}


@pytest.fixture
def kernel(tmp_path):
    modules = tmp_path / "lib/modules/6.1.0"
    lines = []
    for path, needs in {**MODULES, **SEALED}.items():
        (modules / path).parent.mkdir(parents=True, exist_ok=True)
        (modules / path).write_bytes(path.encode())
        lines.append(f"{path}: {' '.join(f'kernel/drivers/{need}' for need in needs)}")
    (modules / "modules.dep").write_text("\n".join(lines) + "\n")
    return Kernel(tmp_path, "d" * 64, "6.1.0", "linux-image-6.1.0")


def names_in(content: bytes) -> list[str]:
    done = subprocess.run(["cpio", "-t", "--quiet"], input=content, capture_output=True, check=True)
    return done.stdout.decode().split()


def test_the_archive_is_one_that_cpio_reads(tmp_path):
    content = archive([Entry.folder("a"), Entry.file("a/b", b"hello\n", 0o755), Entry.file("empty", b"")])
    subprocess.run(["cpio", "-i", "--quiet"], input=content, cwd=tmp_path, check=True)
    assert (tmp_path / "a/b").read_bytes() == b"hello\n"
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "empty").read_bytes() == b""


def test_the_same_inputs_make_the_same_initramfs(kernel):
    first = guest_initramfs(kernel, b"pyz")
    for path in kernel.modules.rglob("*.ko"):
        os.utime(path, (1, 1))
    assert guest_initramfs(kernel, b"pyz") == first
    assert guest_initramfs(kernel, b"other") != first


@pytest.mark.parametrize(("folder", "count"), [("l", 5), ("s", 3)])
def test_modules_come_after_what_they_need(kernel, folder, count):
    """Those that every guest has, and behind them those of a live or a sealed one."""
    names = sorted(names_in(guest_initramfs(kernel, b"pyz")))
    loaded = [name for start in ("m/", f"{folder}/") for name in names if name.startswith(start)]
    order = [name.split("-", 1)[1] for name in loaded]
    for path, needs in {**MODULES, **SEALED}.items():
        if Path(path).name in order:
            for need in needs:
                assert order.index(Path(need).name) < order.index(Path(path).name)
    assert sum(name.startswith(f"{folder}/") for name in loaded) == count
    assert len(order) == len(set(order))


def test_a_module_that_is_not_there_is_named(kernel):
    with pytest.raises(HostError, match="virtio_gpu"):
        load_order(dependencies(kernel.modules), ["virtio_gpu"])


def test_modules_for_other_hardware_go_unless_a_kept_one_needs_them():
    table = {
        "kernel/drivers/infiniband/core/ib_core.ko": [],
        "kernel/drivers/hid/hid.ko": [],
        "kernel/net/smc/smc.ko": ["kernel/drivers/infiniband/core/ib_core.ko"],
        "kernel/net/sched/sch_netem.ko": [],
        "kernel/fs/xfs/xfs.ko": [],
    }
    assert _unwanted(table) == {"kernel/drivers/hid/hid.ko"}


def test_the_probe_guest_has_a_shell_and_its_line():
    assert {"init", "bin/busybox"} <= set(names_in(probe_initramfs()))
    assert PROBE_INIT.encode() in probe_initramfs()


def test_the_guest_file_depends_on_its_sources_only(tmp_path):
    source = Path(next(iter(stormcell.guest.__path__)))
    copies = [tmp_path / "one/guest", tmp_path / "two/guest"]
    for number, copy in enumerate(copies):
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.rglob("*"):
            os.utime(path, (1000 + number, 1000 + number))
    assert guest_pyz(copies[0]) == guest_pyz(copies[1]) == guest_pyz()
    (copies[1] / "wire.py").write_text("# other\n")
    assert guest_pyz(copies[1]) != guest_pyz()


def test_the_guest_file_runs_with_the_standard_library_alone(tmp_path):
    path = tmp_path / "guest.pyz"
    path.write_bytes(guest_pyz())
    assert all(not entry.filename.endswith(".pyc") for entry in zipfile.ZipFile(path).infolist())
    done = subprocess.run([sys.executable, "-I", "-S", path], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: stormcell-guest" in done.stderr


def test_every_subcommand_starts_from_the_guest_file(tmp_path):
    path = tmp_path / "guest.pyz"
    path.write_bytes(guest_pyz())
    line = f"import sys; sys.path.insert(0, {str(path)!r}); from stormcell.guest import commands; commands.warm()"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
