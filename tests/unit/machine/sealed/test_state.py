"""The clock in a saved device state is set to what the guest read; nothing else of it is changed."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.machine.sealed.state import settle, settled
from stormcell.spec.errors import MachineError

RECORDED = Path(__file__).parent / "recorded.state"
"""A piece of the state of a sealed base template, as QEMU 7.2 wrote it: around its clock."""
I64 = st.integers(-(2**63), 2**63 - 1)


def written(before, ticks, clock, bias, count, after, record=(0, 0, 0, 0), offset=0):
    """As vmstate writes the section `timer`, its subsection, and `replay` (migration/vmstate.c)."""
    offsets = struct.pack(">qqq", ticks, 7, clock)
    timer = b"\x04\x00\x00\x00\x01" + b"\x05timer" + struct.pack(">II", 0, 2) + offsets
    counted = b"\x05\x0ctimer/icount" + struct.pack(">Iqq", 1, bias, count)
    first, *rest = record
    replay = b"\x04\x00\x00\x00\x02\x06replay" + struct.pack(
        ">II2qQiII3Q", 0, 2, first, *rest, -1 % 2**32, 0, offset, 3, 9
    )
    return before + timer + counted + replay + after


PLAIN = st.binary(max_size=60).filter(lambda data: b"timer" not in data and b"replay" not in data)


@given(PLAIN, I64, I64, I64, st.integers(0, 2**40), PLAIN, st.integers(0, 2**50))
def test_the_clock_is_the_guests_and_the_hosts_are_zero(before, ticks, clock, bias, count, after, tsc):
    found = settled(written(before, ticks, clock, bias, count, after, (4, 5, 6, 7), 9), tsc)
    settled_one = written(before, 0, 0, tsc - 2 * count, count, after, (0, 0, count, 0))
    assert found == settled_one.replace(struct.pack(">qqq", 0, 7, 0), bytes(24), 1)


@given(PLAIN, I64, I64, st.integers(0, 2**40), st.integers(0, 2**50))
def test_two_states_that_differ_by_the_hosts_doing_become_equal(before, clock, bias, count, tsc):
    """The bias is where a skip to the next timer would be."""
    one = settled(written(before, 1, clock, bias, count, b"", (1, 2, 3, 4), 6), tsc)
    other = settled(written(before, 2, 3, 4, count, b""), tsc)
    assert one == other


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"\x05timer",
        written(b"", 0, 0, 0, 0, b"")[:40],
        written(b"", 0, 0, 0, 0, b"")[:80],
        written(b"", 0, 0, 0, 0, b"\x0ctimer/icount" + bytes(20)),
    ],
    ids=["nothing", "no count", "cut", "no record", "twice"],
)
def test_a_state_of_another_qemu_is_one_error(state):
    with pytest.raises(MachineError, match="no instruction count"):
        settled(state, 1)


def test_a_recorded_state_has_its_clock_where_it_is_looked_for(tmp_path):
    recorded = RECORDED.read_bytes()
    place = recorded.index(b"\x0ctimer/icount") + 17
    bias, count = struct.unpack_from(">qq", recorded, place)
    tsc = bias + 2 * count
    assert 5e9 < tsc < 60e9, "so many nanoseconds a base template lives"
    path = tmp_path / "state"
    path.write_bytes(recorded)
    settle(path, tsc)
    assert path.read_bytes() == recorded, "it was settled when it was saved"
    settle(path, tsc + 1000)
    changed = [at for at, (one, other) in enumerate(zip(recorded, path.read_bytes(), strict=True)) if one != other]
    assert changed and place <= min(changed) and max(changed) < place + 8
