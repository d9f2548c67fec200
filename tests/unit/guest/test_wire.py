from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.guest import wire
from stormcell.guest.wire import Allowance, Decoder, Frame, Intake, Kind, WireError

streams = st.integers(0, wire.MAX_STREAM)
frames = st.builds(Frame, st.sampled_from(sorted(wire.TO_GUEST)), streams, st.binary(max_size=200))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(at)]


def decode(decoder: Decoder, pieces: list[bytes]) -> list[Frame]:
    return [frame for piece in pieces for frame in decoder.feed(piece)]


@given(st.lists(frames, max_size=8), st.lists(st.integers(0, 10_000), max_size=20))
def test_frames_survive_any_cutting(sent: list[Frame], places: list[int]) -> None:
    data = b"".join(wire.encode(*frame) for frame in sent)
    for resync in (False, True):
        assert decode(Decoder(wire.TO_GUEST, resync=resync), cut(data, places)) == sent


@given(st.binary(max_size=300), st.lists(frames, min_size=1, max_size=4), st.lists(st.integers(0, 10_000), max_size=9))
def test_the_guest_finds_the_next_frame_after_rubbish(rubbish: bytes, sent: list[Frame], places: list[int]) -> None:
    # what looks like a frame inside the rubbish is one; without its magic there is none
    rubbish = rubbish.replace(b"S", b"s")
    data = rubbish + b"".join(wire.encode(*frame) for frame in sent)
    assert decode(Decoder(wire.TO_GUEST, resync=True), cut(data, places)) == sent


@given(frames, st.integers(1, 10_000), frames)
def test_padding_completes_a_torn_frame(torn: Frame, place: int, sent: Frame) -> None:
    data = wire.encode(*torn)
    data = data[: 1 + place % len(data)]
    padding = bytes(wire.HEADER.size + wire.MAX_PAYLOAD)
    assert decode(Decoder(wire.TO_GUEST, resync=True), [data, padding, wire.encode(*sent)])[-1] == sent


@given(st.binary(min_size=wire.HEADER.size, max_size=300))
def test_the_host_takes_no_rubbish(rubbish: bytes) -> None:
    if rubbish[:2] == wire.MAGIC:
        rubbish = b"x" + rubbish
    with pytest.raises(WireError):
        decode(Decoder(wire.TO_HOST, resync=False), [rubbish])


@given(st.lists(st.binary(max_size=5000), max_size=30))
def test_a_decoder_holds_less_than_a_frame(pieces: list[bytes]) -> None:
    decoder = Decoder(wire.TO_GUEST, resync=True)
    for piece in pieces:
        list(decoder.feed(piece))
        assert len(decoder._held) < wire.HEADER.size + wire.MAX_PAYLOAD


@pytest.mark.parametrize("resync", [False, True])
def test_a_frame_over_the_limit_is_none(resync: bool) -> None:
    data = wire.HEADER.pack(wire.MAGIC, Kind.REQUEST, 1, wire.MAX_PAYLOAD + 1)
    decoder = Decoder(wire.TO_GUEST, resync=resync)
    if resync:
        assert decode(decoder, [data, wire.encode(Kind.CANCEL, 2)]) == [Frame(Kind.CANCEL, 2, b"")]
    else:
        with pytest.raises(WireError):
            decode(decoder, [data])
    with pytest.raises(WireError):
        wire.encode(Kind.REQUEST, 1, bytes(wire.MAX_PAYLOAD + 1))


def test_a_kind_of_the_other_direction_is_no_frame() -> None:
    with pytest.raises(WireError):
        decode(Decoder(wire.TO_HOST, resync=False), [wire.encode(Kind.REQUEST, 1, b"{}")])


@given(st.binary(max_size=40))
def test_any_path_crosses(path: bytes) -> None:
    text = path.decode("utf-8", "surrogateescape")
    assert wire.unpack(wire.pack({"path": text}))["path"].encode("utf-8", "surrogateescape") == path


@pytest.mark.parametrize("payload", [b"", b"[]", b"1", b"{", b"\xff\xfe", b"[" * 60_000, b'{"a":' * 9_000])
def test_control_payloads_are_objects(payload: bytes) -> None:
    with pytest.raises(WireError):
        wire.unpack(payload)


@given(st.lists(st.integers(0, 400_000), max_size=60))
def test_credit_is_never_over_the_window(sizes: list[int]) -> None:
    allowance, intake = Allowance(wire.OUTPUT_WINDOW), Intake(wire.OUTPUT_WINDOW)
    unread = 0
    for size in sizes:
        size = min(size, allowance.left)
        allowance.take(size)
        intake.received(size)
        unread += size
        assert unread <= wire.OUTPUT_WINDOW
        if unread > wire.OUTPUT_WINDOW // 2:
            allowance.grant(intake.consumed(unread))
            unread = 0
    if grant := intake.consumed(wire.OUTPUT_WINDOW - allowance.left):
        allowance.grant(grant)
    assert allowance.left > wire.OUTPUT_WINDOW // 2  # a reader that keeps up is never stopped


def test_who_takes_more_than_granted_is_refused() -> None:
    allowance, intake = Allowance(100), Intake(100)
    with pytest.raises(WireError):
        allowance.take(101)
    with pytest.raises(WireError):
        allowance.grant(1)
    with pytest.raises(WireError):
        intake.received(101)


@pytest.mark.parametrize("payload", [b"", b"\x06", wire.pack_credit(Kind.INPUT, 1) + b"x", b"\x01\0\0\0\1"])
def test_credit_has_one_form(payload: bytes) -> None:
    with pytest.raises(WireError):
        wire.unpack_credit(payload)
