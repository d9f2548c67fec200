"""What guest and host exchange: framing, whatever is in it and wherever it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.guest.sealed import mailbox
from stormcell.guest.sealed.mailbox import ANSWER, MAGIC, ORDER, PAGE, REQUEST, SIZE, STATUS, Mailbox, Order, Status

U64 = st.integers(0, 2**64 - 1)
FRAMES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=8)


@given(FRAMES)
def test_what_was_framed_comes_out_again(pieces):
    data = b"".join(mailbox.frame(*piece) for piece in pieces)
    assert list(mailbox.frames(data)) == pieces
    assert len(data) == sum(mailbox.framed(len(content)) for _, content in pieces)


@given(FRAMES, st.integers(0, 2000))
def test_a_frame_that_is_not_whole_is_left_for_later(pieces, cut):
    """The host reads while the guest writes, and goes on behind the last whole frame."""
    data = b"".join(mailbox.frame(*piece) for piece in pieces)
    first = list(mailbox.frames(data[:cut]))
    assert first == pieces[: len(first)]
    read = sum(mailbox.framed(len(content)) for _, content in first)
    assert list(mailbox.frames(data[read:])) == pieces[len(first) :]


@given(st.tuples(U64, U64, U64, U64))
def test_a_status_is_read_as_it_was_written(values):
    assert Status.unpack(Status(*values).pack() + bytes(PAGE)) == Status(*values)


@given(st.tuples(U64, U64, U64))
def test_an_order_is_read_as_it_was_written(values):
    assert Order.unpack(Order(*values).pack()) == Order(*values)


@given(st.binary(min_size=40, max_size=80).filter(lambda data: not data.startswith(MAGIC)))
def test_what_no_guest_wrote_is_no_status(data):
    with pytest.raises(ValueError, match="not opened by a guest"):
        Status.unpack(data)


def test_the_places_that_machine_code_and_host_use_are_those_of_the_structures():
    status, order = Status(1, 2, 3, 4).pack(), Order(1, 2, 3).pack()
    assert status[mailbox.WRITTEN : mailbox.WRITTEN + 8] == (3).to_bytes(8, "little")
    assert order[mailbox.PASSING - ORDER :][:8] == (3).to_bytes(8, "little")
    assert len(status) <= mailbox.GATE and mailbox.GATE + 4 <= mailbox.TSC and mailbox.TSC + 8 <= PAGE
    assert STATUS + PAGE <= ORDER and ORDER + PAGE <= REQUEST < ANSWER < SIZE


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "memory"
    with file.open("wb") as handle:
        handle.truncate(SIZE)
    return str(file)


def test_an_answer_that_is_full_takes_no_more(path):
    box = Mailbox(0, path)
    assert box.add(bytes(SIZE - ANSWER - 10)) and box.add(bytes(10))
    assert not box.add(b"x")
    assert box.written == SIZE - ANSWER


def test_a_request_is_taken_as_long_as_it_is(path):
    box = Mailbox(0, path)
    box.memory[REQUEST : REQUEST + 6] = b"abcdef"
    box.memory[ORDER : ORDER + 24] = Order(1, 4, mailbox.GO_BY).pack()
    assert box.take() == b"abcd"


def test_the_stops_are_counted_over_a_boot(path):
    first = Mailbox(0, path)
    first.tell(mailbox.READY, 5)
    first.tell(mailbox.ENDED, 6)
    again = Mailbox(0, path)
    again.tell(mailbox.READY, 1)
    assert Status.unpack(again.memory[:PAGE]) == Status(3, mailbox.READY, 0, 1)
