"""Where memory, disk and mailbox lie, on both sides of 3 GiB."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.guest.sealed import mailbox
from stormcell.machine.sealed.layout import ALIGN, GIB, HIGH, LOW, MIB, TOP, Layout
from stormcell.spec.errors import SpecError

MOST = (LOW - mailbox.SIZE) // ALIGN
LAYOUTS = st.builds(
    Layout,
    st.integers(4 * TOP // ALIGN, MOST).map(lambda count: count * ALIGN),
    st.integers(1, 8 * GIB),
)


@given(LAYOUTS)
def test_disk_and_mailbox_are_in_the_file_and_overlap_nothing(layout):
    assert layout.disk % ALIGN == 0 and layout.box % ALIGN == 0
    assert layout.disk + layout.disk_size <= layout.box
    assert layout.box + mailbox.SIZE <= layout.size
    assert layout.size % MIB == 0


@given(LAYOUTS)
def test_the_guest_may_use_what_was_asked_for(layout):
    """What the kernel is told to leave alone, taken from all of the machine's memory, leaves `memory`."""
    taken = sum(int(size) * MIB for size in re.findall(r"memmap=(\d+)M[!$]", " ".join(layout.words())))
    assert layout.size - taken == layout.memory


@given(LAYOUTS)
def test_ordinary_memory_ends_below_4_gib_where_qemu_puts_the_initramfs(layout):
    """microvm: up to 3 GiB are below 4 GiB; what is behind the disk there has room for it."""
    if layout.size < LOW:
        assert layout.size - (layout.box + mailbox.SIZE) == TOP
    else:
        unused = [word for word in layout.words() if word.startswith("memmap=") and "$" in word][-1]
        size, start = (int(number) * MIB for number in re.findall(r"\d+", unused))
        assert start + size == LOW - TOP


@given(LAYOUTS)
def test_addresses_above_3_gib_are_behind_4_gib(layout):
    disk = re.search(r"memmap=\d+M!(\d+)M", " ".join(layout.words()))
    assert disk is not None
    address = int(disk[1]) * MIB
    assert address == (layout.disk if layout.size < LOW else HIGH)
    assert layout.words()[2] == f"stormcell.mailbox={address + layout.box - layout.disk:#x}"


def test_the_base_template():
    layout = Layout(512 * MIB, 2 * GIB)
    assert (layout.disk // MIB, layout.box // MIB, layout.size // MIB) == (448, 2496, 2640)
    assert layout.words() == ["memmap=2048M!448M", "memmap=80M$2496M", "stormcell.mailbox=0x9c000000"]


def test_a_disk_that_does_not_fit_below_4_gib_lies_behind_it():
    layout = Layout(1024 * MIB, 4 * GIB)
    assert (layout.disk, layout.size) == (LOW, LOW + 4 * GIB + mailbox.SIZE)
    assert layout.words() == [
        "memmap=4096M!4096M", "memmap=80M$8192M", "stormcell.mailbox=0x200000000", "memmap=2048M$960M",
    ]  # fmt: skip


@pytest.mark.parametrize("memory", [0, 4 * TOP - ALIGN, 512 * MIB + 1, 513 * MIB, LOW, LOW - mailbox.SIZE + ALIGN])
def test_memory_that_cannot_be_is_refused_with_what_can(memory):
    with pytest.raises(SpecError) as refused:
        Layout(memory, GIB)
    assert "cannot have" in refused.value.what
    assert "at least 256 and at most 2992" in (refused.value.rule or "")
