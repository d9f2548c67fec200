"""QEMU's command line for a sealed machine, word by word; nothing in it may be of this host."""

import os
from pathlib import Path

import pytest

from stormcell.machine.argv import Ends
from stormcell.machine.sealed.argv import SealedSpec, sealed_argv
from stormcell.machine.sealed.layout import GIB, MIB, Layout
from stormcell.spec.epoch import EPOCH

GOLDEN = Path(__file__).parents[1] / "golden"
ENDS = Ends(qmp=[20, 21], agent=[22, 23])
QEMU = Path("/usr/bin/qemu-system-x86_64")


def spec(**changes):
    fields = {
        "name": "sealed",
        "layout": Layout(512 * MIB, 2 * GIB),
        "kernel": Path("/t/vmlinuz"),
        "initrd": Path("/t/initrd.cpio"),
        "memory": Path("/t/memory"),
    }
    return SealedSpec(**{**fields, **changes})


CASES = {
    "sealed-template": (spec(share=True), False),
    "sealed-restored": (spec(), True),
    "sealed-again": (spec(layout=Layout(1024 * MIB, 4 * GIB), clock="real", epoch=EPOCH + 3725), False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_command_line_is_the_golden_one(name):
    machine, incoming = CASES[name]
    argv = sealed_argv(QEMU, machine, ENDS, Path("/m"), incoming=incoming)
    path = GOLDEN / f"{name}.argv"
    if os.environ.get("STORMCELL_GOLDEN") == "write":
        path.write_text("\n".join(argv) + "\n")
    assert argv == path.read_text().splitlines()


def test_it_is_counted_confined_and_alone():
    for machine, incoming in CASES.values():
        argv = sealed_argv(QEMU, machine, ENDS, Path("/m"), incoming=incoming)
        text = " ".join(argv)
        assert argv[argv.index("-icount") + 1].startswith("shift=1,sleep=")
        assert "thread=single" in text and ",clock=vm" in text and "-smp 1" in text
        assert argv[argv.index("-sandbox") + 1].startswith("on,") and "spawn=deny" in text
        assert not any(word in text for word in ("netdev", "virtio-rng", "blockdev", "virtio-blk", "rng-"))


def test_a_comma_in_a_path_is_not_an_option():
    argv = sealed_argv(QEMU, spec(memory=Path("/t/a,share=on")), ENDS, Path("/m,x"), incoming=True)
    assert any("mem-path=/t/a,,share=on,share=off" in word for word in argv)
    assert "file,id=bell,path=/m,,x/bell" in argv
