"""The real host code against guests that lie: every one must end in an error, in bounded time and memory."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stormcell.guest import wire
from stormcell.guest.wire import Decoder, Frame, Kind
from stormcell.machine import channel as channels
from stormcell.machine import commands, exchange, files
from stormcell.machine.channel import Channel, Identity
from stormcell.machine.commands import start_command
from stormcell.spec.errors import GuestProtocolError, OutcomeUnknown, SandboxError
from tests.unit.guest.agent_process import asynchronous, until

GREETING = wire.pack({"version": wire.VERSION, "boot_id": "b", "generation": ""})
EXIT = {"exit_code": 0, "signal": None, "timed_out": False, "cancelled": False, "left": 0}


class FakeGuest:
    """A raw end of the wire, with what the host sent so far."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._decoder = Decoder(wire.TO_GUEST, resync=True)
        self.frames: list[Frame] = []

    async def take(self, kind: Kind) -> Frame:
        loop = asyncio.get_running_loop()
        while True:
            for frame in self.frames:
                if frame.kind == kind:
                    self.frames.remove(frame)
                    return frame
            data = await loop.sock_recv(self._sock, 65536)
            assert data, "the host hung up"
            self.frames += self._decoder.feed(data)

    async def give(self, *pieces: bytes) -> None:
        for piece in pieces:
            await asyncio.get_running_loop().sock_sendall(self._sock, piece)

    async def welcome(self) -> None:
        hello = await self.take(Kind.HELLO)
        await self.give(wire.encode(Kind.WELCOME, hello.stream, GREETING))

    async def flood(self, piece: bytes) -> int:
        """Send without end. Returns the bytes that got through before the host hung up."""
        sent = 0
        try:
            while True:
                await self.give(piece)
                sent += len(piece)
        except (BrokenPipeError, ConnectionResetError):
            return sent


@asynccontextmanager
async def wired() -> AsyncIterator[tuple[Channel, FakeGuest]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with theirs:
        async with await Channel.over(ours, "test") as channel:
            yield channel, FakeGuest(theirs)


@asynccontextmanager
async def talking() -> AsyncIterator[tuple[Channel, FakeGuest]]:
    async with wired() as (channel, guest):
        await guest.welcome()
        await channel.ready(5)
        yield channel, guest


async def both(host: Awaitable[object], guest: Awaitable[object]) -> BaseException | object:
    async with asyncio.timeout(30):
        answer, _ = await asyncio.gather(host, guest, return_exceptions=True)
    return answer


async def command(channel: Channel) -> None:
    running = await start_command(channel, ["true"], timeout=5)
    async for _ in running.stdout:
        pass
    await running.wait()


@asynchronous
async def test_what_was_meant_for_an_earlier_host_is_skipped() -> None:
    async with wired() as (channel, guest):
        hello = await guest.take(Kind.HELLO)
        torn = wire.encode(Kind.OUTPUT, 9, os.urandom(5000))
        other = wire.encode(Kind.WELCOME, hello.stream ^ 1, GREETING)
        await guest.give(torn[100:], other, torn, torn[:70], wire.encode(Kind.WELCOME, hello.stream, GREETING))
        assert (await channel.ready(5)).boot_id == "b"


@asynchronous
async def test_a_guest_that_waits_for_a_torn_frame_is_helped() -> None:
    async with wired() as (channel, guest):
        guest._decoder = Decoder(wire.TO_GUEST, resync=True)
        list(guest._decoder.feed(wire.encode(Kind.INPUT, 1, bytes(50_000))[:10]))
        await guest.welcome()
        assert (await channel.ready(5)).version == wire.VERSION


@asynchronous
async def test_endless_noise_before_the_welcome_is_refused() -> None:
    async with wired() as (channel, guest):
        answer = await both(channel.ready(20), guest.flood(os.urandom(65536)))
        assert isinstance(answer, SandboxError)
        assert channel.closed


@asynchronous
async def test_silence_has_a_deadline() -> None:
    async with wired() as (channel, _):
        with pytest.raises(SandboxError, match="nothing was sent"):
            await channel.ready(0.2)
    async with talking() as (channel, guest):
        with pytest.raises(OutcomeUnknown):
            await channel.hello(0.2)
        assert (await guest.take(Kind.CANCEL)).stream == 1


@asynchronous
async def test_a_command_that_never_ends_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MARGIN", 0.3)
    async with talking() as (channel, guest):
        waiting = asyncio.create_task(start_command(channel, ["x"], timeout=0.2))
        request = await guest.take(Kind.REQUEST)
        await guest.give(wire.encode(Kind.STARTED, request.stream, wire.pack({"pid": 5})))
        with pytest.raises(OutcomeUnknown):
            await (await waiting).wait()


@asynchronous
async def test_output_that_nobody_reads_excuses_a_late_end_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MARGIN", 0.1)
    monkeypatch.setattr(exchange, "_STALLED", 4.0)
    async with talking() as (channel, guest):
        waiting = asyncio.create_task(start_command(channel, ["x"], timeout=0.4))
        stream = (await guest.take(Kind.REQUEST)).stream
        await guest.give(
            wire.encode(Kind.STARTED, stream, wire.pack({"pid": 5})), wire.encode(Kind.OUTPUT, stream, b"x")
        )
        running = await waiting
        ending = asyncio.create_task(running.wait())
        await asyncio.sleep(0.8)
        assert not ending.done()
        with pytest.raises(OutcomeUnknown):
            await ending


@asynchronous
async def test_a_break_after_sending_leaves_the_outcome_unknown() -> None:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    released = []
    channel = await Channel.over(ours, "test", on_close=lambda: released.append(True))
    guest = FakeGuest(theirs)
    await guest.welcome()
    waiting = asyncio.create_task(start_command(channel, ["x"]))
    await guest.take(Kind.REQUEST)
    theirs.close()
    with pytest.raises(OutcomeUnknown):
        await waiting
    with pytest.raises(SandboxError, match="closed") as caught:
        await start_command(channel, ["x"])
    assert not isinstance(caught.value, OutcomeUnknown)  # it was not sent
    await channel.close()
    assert released == [True]


@asynchronous
async def test_an_agent_that_was_started_anew_is_noticed() -> None:
    async with talking() as (channel, guest):
        waiting = asyncio.create_task(start_command(channel, ["x"]))
        await guest.take(Kind.REQUEST)
        await guest.give(wire.encode(Kind.WELCOME, 0, GREETING))
        with pytest.raises(OutcomeUnknown, match="started anew"):
            await waiting


def control(kind: Kind, payload: object) -> Callable[[int], bytes]:
    return lambda stream: wire.encode(kind, stream, payload if isinstance(payload, bytes) else wire.pack(payload))  # type: ignore[arg-type]


started = control(Kind.STARTED, {"pid": 5})
LIES: dict[str, Callable[[int], bytes]] = {
    "no magic": lambda _: bytes(11),
    "a kind that only hosts send": control(Kind.REQUEST, {}),
    "an unknown kind": lambda stream: wire.HEADER.pack(wire.MAGIC, 99, stream, 0),
    "a length beyond the limit": lambda stream: wire.HEADER.pack(wire.MAGIC, Kind.OUTPUT, stream, 2**31),
    "another stream": lambda stream: wire.encode(Kind.OUTPUT, stream + 1, b"x"),
    "a final answer to another stream": lambda stream: control(Kind.FINAL, EXIT)(stream + 1),
    "a welcome for someone else": lambda _: wire.encode(Kind.WELCOME, 7, GREETING),
    "no JSON": control(Kind.FINAL, b"{"),
    "deep JSON": control(Kind.FINAL, b"[" * 60_000),
    "no object": control(Kind.FINAL, b"[1]"),
    "two starts": lambda stream: started(stream) * 2,
    "a start without pid": control(Kind.STARTED, {}),
    "a pid that is none": control(Kind.STARTED, {"pid": "5"}),
    "data after its end": lambda stream: wire.encode(Kind.OUTPUT, stream) + wire.encode(Kind.OUTPUT, stream, b"x"),
    "credit for what it sends": lambda stream: wire.encode(Kind.CREDIT, stream, wire.pack_credit(Kind.OUTPUT, 1)),
    "credit without debt": lambda stream: wire.encode(Kind.CREDIT, stream, wire.pack_credit(Kind.INPUT, 1)),
    "a short credit": lambda stream: wire.encode(Kind.CREDIT, stream, b"\6"),
    "an exit without fields": lambda stream: started(stream) + control(Kind.FINAL, {})(stream),
    "two final answers": lambda stream: started(stream) + control(Kind.FINAL, EXIT)(stream) * 2 + bytes(1),
    "an exit code of 256": lambda stream: started(stream) + control(Kind.FINAL, EXIT | {"exit_code": 256})(stream),
    "a code and a signal": lambda stream: started(stream) + control(Kind.FINAL, EXIT | {"signal": 9})(stream),
    "neither": lambda stream: started(stream) + control(Kind.FINAL, EXIT | {"exit_code": None})(stream),
    "a code of true": lambda stream: started(stream) + control(Kind.FINAL, EXIT | {"exit_code": "0"})(stream),
    "more than a window": lambda stream: started(stream) + wire.encode(Kind.ERRORS, stream, bytes(65536)) * 17,
}


@pytest.mark.parametrize("lie", LIES)
@asynchronous
async def test_a_lie_ends_the_channel(lie: str) -> None:
    async with talking() as (channel, guest):

        async def speak() -> None:
            request = await guest.take(Kind.REQUEST)
            await guest.give(LIES[lie](request.stream))

        answer = await both(command(channel), speak())
        if lie == "two final answers":
            assert answer is None  # the command had ended; the channel is heard no further all the same
            await until(lambda: channel.closed)
        else:
            assert isinstance(answer, GuestProtocolError), answer
        assert channel.closed
        with pytest.raises(SandboxError):
            await channel.hello(1)


@asynchronous
async def test_a_flood_of_output_is_cut_off_at_the_window() -> None:
    async with talking() as (channel, guest):
        opened = await channel.open({"op": "x"}, idle=20)
        sent = await guest.flood(wire.encode(Kind.OUTPUT, 1, bytes(65536)))
        assert sent < 8 * wire.OUTPUT_WINDOW  # what the kernel's buffers hold comes on top
        with pytest.raises(GuestProtocolError):
            await opened.final()


@asynchronous
async def test_a_cancelled_request_holds_no_output() -> None:
    async with talking() as (channel, guest):
        opened = await channel.open({"op": "x"}, idle=20)
        opened.cancel()
        await guest.take(Kind.CANCEL)
        await guest.give(wire.encode(Kind.OUTPUT, 1, bytes(65536)) * 3, wire.encode(Kind.FINAL, 1, b"{}"))
        assert await opened.final() == {}
        assert await opened.read(Kind.OUTPUT) == b""
        assert not channel._exchanges


@asynchronous
async def test_data_before_a_break_is_given_out_first() -> None:
    async with talking() as (channel, guest):
        opened = await channel.open({"op": "x"}, idle=5)
        await guest.give(wire.encode(Kind.OUTPUT, 1, b"kept"))
        await asyncio.sleep(0.1)
        await channel.close()
        assert await opened.read(Kind.OUTPUT) == b"kept"
        with pytest.raises(OutcomeUnknown):
            await opened.read(Kind.OUTPUT)


@asynchronous
async def test_another_version_is_refused() -> None:
    async with wired() as (channel, guest):
        hello = await guest.take(Kind.HELLO)
        other = wire.pack({"version": 99, "boot_id": "b", "generation": ""})
        await guest.give(wire.encode(Kind.WELCOME, hello.stream, other))
        with pytest.raises(SandboxError, match="version 99"):
            await channel.ready(5)


RESUMED = {"wall_clock_ns": 1, "generation": "g", "boot_id": "b", "dropped": 0, "orphans": []}


@pytest.mark.parametrize(
    "change",
    [
        {"generation": "other"},
        {"generation": None},
        {"wall_clock_ns": "1"},
        {"boot_id": "x" * 2000},
        {"dropped": True},
        {"orphans": None},
        {"orphans": [1]},
        {"orphans": [{"pid": "1", "command": "x"}]},
        {"orphans": [{"pid": 1}]},
    ],
)
@asynchronous
async def test_resumed_is_believed_only_when_it_is_whole(change: dict[str, object]) -> None:
    for answer, good in ((RESUMED, True), (RESUMED | change, False)):
        async with talking() as (channel, guest):

            async def speak(answer: Mapping[str, object] = answer, guest: FakeGuest = guest) -> None:
                request = await guest.take(Kind.REQUEST)
                await guest.give(wire.encode(Kind.FINAL, request.stream, wire.pack(answer)))

            result = await both(channel.resume(Identity("h", "0" * 32, "g"), 5), speak())
            assert isinstance(result, channels.Resumed if good else GuestProtocolError)


LISTINGS = [
    b'{"name": "../../etc/passwd"}\n', b'{"name": ".."}\n', b'{"name": "a/b"}\n', b'{"name": ""}\n', b"\n", b"[]\n",
    b'{"name": "f", "type": "file", "size": -1, "mode": 0, "uid": 0, "gid": 0, "mtime_ns": 0, "target": null}\n',
    b'{"name": "f", "type": "virus", "size": 1, "mode": 0, "uid": 0, "gid": 0, "mtime_ns": 0, "target": null}\n',
    b"x" * 65536,
]  # fmt: skip


@pytest.mark.parametrize("text", LISTINGS)
@asynchronous
async def test_a_listing_of_impossible_names_is_refused(text: bytes) -> None:
    async with talking() as (channel, guest):

        async def speak() -> None:
            await guest.take(Kind.REQUEST)
            await guest.flood(wire.encode(Kind.OUTPUT, 1, text))

        answer = await both(files.list(channel, "/x"), speak())
        assert isinstance(answer, GuestProtocolError), answer


@asynchronous
async def test_an_endless_listing_is_capped() -> None:
    async with talking() as (channel, guest):

        async def speak() -> None:
            stream = (await guest.take(Kind.REQUEST)).stream
            for n in range(2000):
                line = wire.pack(
                    {"name": str(n), "type": "file", "size": 0, "mode": 0, "uid": 0, "gid": 0, "mtime_ns": 0}
                )
                await guest.give(wire.encode(Kind.OUTPUT, stream, line + b"\n"))
            await guest.take(Kind.CANCEL)

        answer = await both(files.list(channel, "/x", limit=500), speak())
        assert isinstance(answer, SandboxError) and "more than 500" in str(answer)


@asynchronous
async def test_contents_must_have_the_length_that_was_told() -> None:
    for answer in ({"size": 4}, {"size": "3"}, {}):
        async with talking() as (channel, guest):

            async def speak(answer: Mapping[str, object] = answer, guest: FakeGuest = guest) -> None:
                await guest.take(Kind.REQUEST)
                await guest.give(wire.encode(Kind.OUTPUT, 1, b"abc"), wire.encode(Kind.OUTPUT, 1))
                await guest.give(wire.encode(Kind.FINAL, 1, wire.pack(answer)))

            async def read(channel: Channel = channel) -> None:
                async for _ in files.read(channel, "/x"):
                    pass

            assert isinstance(await both(read(), speak()), GuestProtocolError)


@asynchronous
async def test_what_a_guest_says_is_made_fit_for_a_terminal() -> None:
    evil = "\x1b]0;owned\x07\r\n" + "\udcff" + "x" * 5000
    for error in (
        {"kind": "file", "errno": 2, "message": evil, "path": evil},
        {"kind": "spawn", "stage": evil, "message": evil},
    ):
        async with talking() as (channel, guest):

            async def speak(error: Mapping[str, object] = error, guest: FakeGuest = guest) -> None:
                await guest.take(Kind.REQUEST)
                await guest.give(wire.encode(Kind.FINAL, 1, wire.pack({"error": error})))

            call = files.stat(channel, "/x") if error["kind"] == "file" else command(channel)
            answer = await both(call, speak())
            assert isinstance(answer, SandboxError)
            text = str(answer).replace("\n", "")
            assert text.isprintable() and len(text) < 2000
            text.encode()


junk = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda kind, stream, payload: wire.encode(kind, stream, payload),
        st.sampled_from(sorted(Kind)),
        st.integers(0, 3),
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [b"", b"{}", wire.pack(EXIT), wire.pack({"pid": 1}), wire.pack_credit(Kind.INPUT, 5), GREETING]
            ),
        ),
    ),
)


@pytest.mark.timeout(600)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.lists(junk, max_size=12), st.booleans(), st.randoms(use_true_random=False))
def test_random_frames_never_hang_or_crash_the_host(pieces: list[bytes], greeted: bool, chance: random.Random) -> None:
    @asynchronous
    async def scenario() -> None:
        async with wired() as (channel, guest):

            async def speak() -> None:
                if greeted:
                    await guest.welcome()
                try:
                    for piece in pieces:
                        await guest.give(piece)
                        if chance.random() < 0.3:
                            await asyncio.sleep(0)
                finally:
                    guest._sock.close()

            calls = [command(channel), files.list(channel, "/x"), files.write(channel, "/x", bytes(400_000))]
            async with asyncio.timeout(20):
                *answers, _ = await asyncio.gather(*calls, speak(), return_exceptions=True)
            for answer in answers:
                assert answer is None or isinstance(answer, SandboxError | tuple | int), repr(answer)

    scenario()


@asynchronous
async def test_nobody_listening_is_said_and_the_port_released(tmp_path: Path) -> None:
    released: list[bool] = []
    with pytest.raises(SandboxError):
        await Channel.connect(tmp_path / "none.sock", on_close=lambda: released.append(True))
    assert released == [True]
