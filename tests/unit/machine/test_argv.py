import os
from pathlib import Path

import pytest

from stormcell.machine.argv import Ends, command_line, qemu_argv
from stormcell.machine.model import Forward, MachineSpec, Shape

GOLDEN = Path(__file__).parent / "golden"
ENDS = Ends(qmp=[20, 21], agent=[22, 23])
QEMU = Path("/usr/bin/qemu-system-x86_64")


def machine(**changes):
    fields = {
        "name": "sc-0001",
        "shape": Shape(),
        "kernel": Path("/t/vmlinuz"),
        "initrd": Path("/t/initrd.cpio"),
        "disk": Path("/s/disk.qcow2"),
        "memory": Path("/t/memory"),
    }
    return MachineSpec(**{**fields, **changes})


CASES = {
    "template": (machine(share=True), False),
    "restored": (machine(forwards=(Forward("web", 8080), Forward("db", 5432, 15432))), True),
    "kvm": (machine(shape=Shape(memory_mib=1024, vcpus=4, accel="kvm"), command_line=("mitigations=off",)), False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_command_line_is_the_golden_one(name):
    spec, incoming = CASES[name]
    argv = qemu_argv(QEMU, spec, ENDS, tsc_khz=2_400_000, incoming=incoming)
    path = GOLDEN / f"{name}.argv"
    if os.environ.get("STORMCELL_GOLDEN") == "write":
        path.write_text("\n".join(argv) + "\n")
    assert argv == path.read_text().splitlines()


def test_every_machine_is_confined():
    for spec, incoming in CASES.values():
        argv = qemu_argv(QEMU, spec, ENDS, tsc_khz=1, incoming=incoming)
        sandbox = argv[argv.index("-sandbox") + 1]
        assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
        assert "restrict=on" in argv[argv.index("-netdev") + 1].split(",")
        assert "-virtfs" not in argv and "-fsdev" not in argv


def test_a_comma_in_a_path_is_not_an_option():
    spec = machine(disk=Path("/s/a,readonly=on"), memory=Path("/t/x,share=on"))
    argv = qemu_argv(QEMU, spec, ENDS, tsc_khz=1, incoming=False)
    assert any(word.endswith("file.filename=/s/a,,readonly=on") for word in argv)
    assert any("mem-path=/t/x,,share=on,share=off" in word for word in argv)


def test_only_an_emulated_guest_is_told_its_tsc():
    assert "tsc_early_khz=7" in command_line(machine(), 7).split()
    assert "tsc_early_khz" not in command_line(machine(shape=Shape(accel="kvm")), 7)
