"""What a confused or hostile host may write to a port: the agent goes on, and the next host is served."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell.guest import wire
from stormcell.guest.wire import Decoder, Frame, Kind
from stormcell.machine.commands import start_command
from tests.unit.guest.agent_process import AgentProcess, asynchronous, communicate, run, running_agent

REQUESTS = [
    b"",
    b"[]",
    b"{",
    b"{}",
    b'{"op": 5}',
    b'{"op": "resume"}',
    b'{"op": "hello"}',
    b'{"op": "exec"}',
    b'{"op": "exec", "argv": []}',
    b'{"op": "exec", "argv": [1], "timeout_s": 1}',
    b'{"op": "exec", "argv": ["true"]}',
    b'{"op": "exec", "argv": ["true"], "timeout_s": -1}',
    b'{"op": "exec", "argv": ["cat"], "timeout_s": 1e999, "stdin": true}',
    b'{"op": "exec", "argv": ["cat"], "timeout_s": 600000, "stdin": true}',
    b'{"op": "exec", "argv": ["true"], "timeout_s": 5, "env": []}',
    b'{"op": "exec", "shell": ":", "timeout_s": 5, "cwd": 1}',
    b'{"op": "exec", "argv": ["a\\u0000b"], "timeout_s": 5}',
    b'{"op": "exec", "argv": ["\\ud800"], "timeout_s": 5}',
    b'{"op": "file.stat", "path": 3}',
    b'{"op": "file.stat", "path": "\\u0000"}',
    b'{"op": "file.stat"}',
    b'{"op": "file.read", "path": "/"}',
]
junk = st.one_of(
    st.binary(max_size=200),
    st.builds(wire.encode, st.just(Kind.REQUEST), st.integers(0, 3), st.sampled_from(REQUESTS)),
    st.builds(
        wire.encode,
        st.sampled_from([Kind.INPUT, Kind.CREDIT, Kind.CANCEL, Kind.SIGNAL, Kind.HELLO]),
        st.integers(0, 3),
        st.sampled_from(
            [b"", b"x" * 65536, b"{}", b'{"signal": 15}', b'{"signal": 99}', wire.pack_credit(Kind.OUTPUT, 2**32 - 1)]
        ),
    ),
)


@pytest.fixture(scope="module")
def port() -> Iterator[socket.socket]:
    """A raw end of one agent that all examples share: what one leaves behind must not harm the next."""
    loop = asyncio.new_event_loop()
    context = running_agent()
    agent: AgentProcess = loop.run_until_complete(context.__aenter__())
    agent.ends[0].settimeout(30)
    yield agent.ends[0]
    loop.run_until_complete(context.__aexit__(None, None, None))
    loop.close()


def greeted(port: socket.socket, nonce: int) -> list[Frame]:
    """Fill up a torn frame, say hello, and read until the welcome; what came before it is skipped."""
    port.sendall(bytes(wire.HEADER.size + wire.MAX_PAYLOAD) + wire.encode(Kind.HELLO, nonce, b"{}"))
    mark = wire.HEADER.pack(wire.MAGIC, Kind.WELCOME, nonce, 0)[:-4]
    held = b""
    while mark not in held:
        data = port.recv(65536)
        assert data, "the agent hung up"
        held = held[-64:] + data
    rest = held[held.index(mark) :]
    decoder = Decoder(wire.TO_HOST, resync=False)
    frames = list(decoder.feed(rest))
    while not frames:
        frames += decoder.feed(port.recv(65536))
    return frames


@settings(max_examples=60, deadline=None)
@given(st.lists(junk, max_size=10))
def test_the_agent_survives_any_host(port: socket.socket, pieces: list[bytes]) -> None:
    for piece in pieces:
        port.sendall(piece)
    nonce = 1000 + int.from_bytes(os.urandom(3), "big")
    assert greeted(port, nonce)[0].kind == Kind.WELCOME


def test_a_greeting_that_is_no_json_does_not_hide_the_one_behind_it(port: socket.socket) -> None:
    greeted(port, 7)
    port.sendall(wire.encode(Kind.HELLO, 8, b"x") + wire.encode(Kind.HELLO, 9, b"{}"))
    welcomes: list[Frame] = []
    decoder = Decoder(wire.TO_HOST, resync=False)
    while not welcomes:
        data = port.recv(65536)
        assert data, "the agent hung up"
        welcomes += decoder.feed(data)
    assert [(frame.kind, frame.stream) for frame in welcomes] == [(Kind.WELCOME, 9)]


@asynchronous
async def test_input_over_the_window_ends_that_request_alone() -> None:
    async with running_agent() as agent:
        channel = await agent.channel()
        greedy = await start_command(channel, ["sleep", "1000"], stdin=True)
        other = await start_command(channel, ["cat"], stdin=True)
        for _ in range(6):
            greedy._exchange._allowance.left -= wire.MAX_PAYLOAD  # sent without asking whether it may be
            channel._send(Kind.INPUT, greedy._exchange._stream, bytes(wire.MAX_PAYLOAD))
        answer = await greedy._exchange.final()
        assert "granted" in answer["error"]["message"]
        assert (await communicate(other, b"fine"))[1] == b"fine"


@asynchronous
async def test_a_new_greeting_ends_what_ran_for_the_old_one() -> None:
    async with running_agent() as agent:
        channel = await agent.channel()
        doomed = await start_command(channel, ["sleep", "1000"])
        channel._send(Kind.HELLO, channel._nonce, b"{}")  # said twice by the same host: nothing changes
        assert (await run(channel, ["echo", "x"]))[1] == b"x\n"
        assert os.path.exists(f"/proc/{doomed.pid}")  # noqa: PTH110
        channel._send(Kind.HELLO, channel._nonce ^ 1, b"{}")
        async with asyncio.timeout(20):
            while os.path.exists(f"/proc/{doomed.pid}"):  # noqa: ASYNC110, PTH110
                await asyncio.sleep(0.01)
