import ctypes
import itertools
import mmap
import os
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.machine.pages import PAGE, Pages, Room, private_runs, put_in, region, runs_of
from stormcell.machine.process import identity_of
from stormcell.spec.errors import HostError, MachineDied, MachineError

PRESENT, SWAPPED, FILE, DIRTY = 1 << 63, 1 << 62, 1 << 61, 1 << 55

HOLDER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
held = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE)
for page in (1, 2, 5):
    held[page * 4096 : page * 4096 + 3] = b"own"
print(held[0], flush=True)
for line in sys.stdin:
    print(held[: 8 * 4096].hex(), flush=True)
"""


def entries(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def test_only_what_is_present_or_swapped_and_of_no_file_is_own():
    seen = entries(0, PRESENT, PRESENT | DIRTY, PRESENT | FILE, SWAPPED, SWAPPED | FILE, PRESENT | 0xABCDEF)
    assert runs_of(seen) == [(1 * PAGE, 2 * PAGE), (4 * PAGE, PAGE), (6 * PAGE, PAGE)]


@given(st.lists(st.booleans(), max_size=200))
def test_runs_cover_exactly_the_own_pages(own):
    found = runs_of(entries(*(PRESENT if mine else PRESENT | FILE for mine in own)))
    pages = {page for offset, length in found for page in range(offset // PAGE, (offset + length) // PAGE)}
    assert pages == {index for index, mine in enumerate(own) if mine}
    assert all(first[0] + first[1] < second[0] for first, second in itertools.pairwise(found))


@pytest.fixture
def holder(tmp_path):
    memory = tmp_path / "memory"
    memory.write_bytes(os.urandom(8 * PAGE))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(memory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    line(process)
    yield memory, process, named(process.pid)
    process.kill()
    process.communicate()


def line(process):
    assert process.stdout is not None
    return process.stdout.readline()


def named(pid):
    identity = identity_of(pid)
    assert identity is not None
    return identity


def content(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return bytes.fromhex(line(process))


def held(pages):
    return {place: bytes(content) for place, content in pages.contents()}


@pytest.mark.parametrize("ahead", [0, 1, 64 * PAGE])
def test_own_pages_come_out_of_a_process_and_go_into_another(holder, tmp_path, ahead):
    memory, process, identity = holder
    low, high = region(identity, memory)
    runs = private_runs(identity, low, high)
    assert runs == [(PAGE, 2 * PAGE), (5 * PAGE, PAGE)]
    room = Room(ahead)
    room.take()
    pages = room.copy(identity, low, runs)
    assert pages.bytes == 3 * PAGE
    before = content(process)
    assert held(pages) == {PAGE: before[PAGE : 3 * PAGE], 5 * PAGE: before[5 * PAGE : 6 * PAGE]}

    twin = subprocess.Popen(
        [sys.executable, "-c", HOLDER.replace("own", "new"), str(memory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line(twin)
        other = named(twin.pid)
        assert content(twin) != before
        put_in(other, region(other, memory)[0], pages)
        assert content(twin) == before
    finally:
        twin.kill()
        twin.communicate()
        pages.close()


def test_nothing_own_is_no_error(holder, tmp_path):
    _, _, identity = holder
    pages = Room(0).copy(identity, 0, [])
    assert (pages.bytes, pages.runs) == (0, ())
    put_in(identity, 0, pages)
    pages.close()


def test_more_runs_than_one_call_takes():
    size = 3000 * 2 * PAGE
    owned = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, 6000, 2):
        owned[page * PAGE] = page % 251
    low = ctypes.addressof(ctypes.c_char.from_buffer(owned))
    runs = private_runs(named(os.getpid()), low, low + size)
    assert len(runs) == 3000
    pages = Room(size).copy(named(os.getpid()), low, runs)
    assert [content[0] for content in held(pages).values()] == [(2 * i) % 251 for i in range(3000)]
    pages.close()


def test_a_dead_process_and_a_foreign_address_are_told_apart(holder, tmp_path):
    memory, process, identity = holder
    other = tmp_path / "other"
    other.write_bytes(b"x")
    with pytest.raises(MachineError, match="not where its record says"):
        region(identity, other)
    low, _ = region(identity, memory)
    with pytest.raises(HostError, match=f"memory of process {identity.pid}"):
        Room(0).copy(identity, 4096, [(0, PAGE)])
    runs = [(0, PAGE)]
    process.kill()
    process.wait()
    with pytest.raises(MachineDied):
        region(identity, memory)
    with pytest.raises(MachineDied):
        Room(0).copy(identity, low, runs)


def test_pages_of_a_file_are_what_was_saved_and_close_gives_them_back(tmp_path):
    saved = tmp_path / "pages"
    saved.write_bytes(b"a" * PAGE + b"b" * 2 * PAGE)
    pages = Pages.of_file([(0, PAGE), (4 * PAGE, 2 * PAGE)], saved)
    assert held(pages) == {0: b"a" * PAGE, 4 * PAGE: b"b" * 2 * PAGE}
    pages.close()
    assert pages.memory is not None
    assert pages.memory.closed
    nothing = Pages.of_file([], saved)
    assert held(nothing) == {}
    nothing.close()
