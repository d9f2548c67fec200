"""The filter as the kernel runs it: read back by a small machine for classic BPF (Documentation/networking/filter)."""

import struct
from pathlib import Path

import pytest

from stormcell.guest import seccomp
from stormcell.guest.tools.seccomp import syscalls

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000


def verdict(program, number, arch=seccomp.ARCH_X86_64):
    data, at, value = struct.pack("<iIQ6Q", number, arch, *[0] * 7), 0, 0
    steps = list(struct.iter_unpack("<HBBI", program))
    while True:
        code, yes, no, k = steps[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("<I", data, k)[0]
        elif code == 0x15:
            at += yes if value == k else no
        else:
            assert code == 0x06
            return k


def test_the_calls_are_handed_over_and_nothing_else():
    program = seccomp.program(syscalls.meant(["open", "fsync"], False))
    met = {name for name, number in syscalls.NUMBERS.items() if verdict(program, number) == NOTIFY}
    assert met == {*syscalls.GROUPS["open"], *syscalls.GROUPS["fsync"]}
    assert {verdict(program, number) for number in range(2000)} == {ALLOW, NOTIFY}
    assert verdict(program, 74, arch=0x40000003) == ALLOW, "i386"
    assert verdict(program, 74 | 0x40000000) == ALLOW, "x32"


def test_all_calls_fit_into_one_filter():
    assert verdict(seccomp.program(syscalls.NAMES), 450) == NOTIFY
    assert len(seccomp.program(syscalls.NAMES)) // 8 < 4096  # BPF_MAXINSNS


@pytest.mark.parametrize(("names", "exact", "calls"), [
    (["open"], True, {"open"}),
    (["sleep", "getrandom"], False, {"nanosleep", "clock_nanosleep", "getrandom"}),
])  # fmt: skip
def test_a_group_is_all_of_it_unless_it_is_said_to_be_exact(names, exact, calls):
    assert {syscalls.NAMES[number] for number in syscalls.meant(names, exact)} == calls


def test_a_group_consists_of_system_calls():
    assert {call for calls in syscalls.GROUPS.values() for call in calls} <= set(syscalls.NUMBERS)
    assert set(syscalls.NEVER) <= set(syscalls.NUMBERS)


@pytest.mark.skipif(not HEADER.exists(), reason="no kernel headers here")
def test_the_table_is_the_kernels():
    lines = [line.split() for line in HEADER.read_text().splitlines() if line.startswith("#define __NR_")]
    known = {name[5:]: int(number) for _, name, number in lines}
    assert {name: known.get(name) for name in syscalls.NUMBERS} == syscalls.NUMBERS
