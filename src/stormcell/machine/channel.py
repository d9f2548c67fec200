"""The host end of an agent port: many requests over one connection to a guest that nobody trusts.

Whatever the guest sends, the host's memory stays within the windows of the open requests, and every wait ends. A guest
that says what no agent says is heard no further.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from stormcell.guest import wire
from stormcell.guest.wire import Decoder, Frame, Kind, WireError
from stormcell.machine.exchange import Exchange, printable
from stormcell.machine.sockets import connect
from stormcell.spec.errors import GuestProtocolError, OutcomeUnknown, SandboxError

T = TypeVar("T")
REQUEST_LIMIT = 30.0
"""Seconds for a request that the guest answers at once, on a machine that may be very busy."""
_REPEAT_HELLO = 2.0
_MOST_FOREIGN = 4 * 1024 * 1024
"""Bytes of an earlier connection's answers that may come before the guest's welcome."""


@dataclass(frozen=True)
class Hello:
    """Who answers. `generation` is empty until the first `resume`."""

    version: int
    boot_id: str
    generation: str


@dataclass(frozen=True)
class Identity:
    """What a restored machine must be told so that it is not its siblings."""

    hostname: str
    machine_id: str
    generation: str


@dataclass(frozen=True)
class Orphan:
    """A command with nobody to answer to: its first process in the guest, and its words (at most 200 characters)."""

    pid: int
    command: str


@dataclass(frozen=True)
class Resumed:
    """The guest's acknowledgement: its wall clock afterwards, and how many old connections it dropped.

    `orphans` are the commands that run in a fork and whose callers wait for the answer of the machine it came from.
    """

    wall_clock_ns: int
    generation: str
    boot_id: str
    dropped: int
    orphans: tuple[Orphan, ...] = ()


class Channel:
    """A connected agent port. Use from one event loop. Make it with `connect`."""

    def __init__(self, where: str, on_close: Callable[[], None] | None = None, *, forked: bool = False) -> None:
        self.where = where
        self._forked = forked
        self._on_close = on_close
        self._nonce = secrets.randbelow(wire.MAX_STREAM) + 1
        self._decoder = Decoder(wire.TO_HOST, resync=False)
        self._foreign: bytearray | None = bytearray()
        self._dropped = 0
        self._welcome: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._welcome.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._repeat: asyncio.TimerHandle | None = None
        self._exchanges: dict[int, Exchange] = {}
        self._next = 1
        self._transport: asyncio.Transport | None = None
        self._broken: SandboxError | None = None

    @classmethod
    async def connect(
        cls,
        path: str | Path,
        timeout: float = REQUEST_LIMIT,
        *,
        on_close: Callable[[], None] | None = None,
        forked: bool = False,
    ) -> Self:
        """Connect to a machine's agent socket and greet the guest, without waiting for its answer.

        `on_close` is called when the channel is closed or breaks, or cannot be made: then SandboxError is raised.
        """
        try:
            sock = connect(Path(path))
        except BaseException:
            if on_close:
                on_close()
            raise
        try:
            return await cls.over(sock, str(path), timeout, on_close=on_close, forked=forked)
        except (OSError, TimeoutError) as error:
            raise SandboxError(f"the guest's agent port cannot be used ({error})", where=str(path)) from error

    @classmethod
    async def over(
        cls,
        sock: socket.socket,
        where: str,
        timeout: float = REQUEST_LIMIT,
        *,
        on_close: Callable[[], None] | None = None,
        forked: bool = False,
    ) -> Self:
        """The same on a connected, non-blocking socket, which the channel owns from here on.

        `forked` tells the guest that it is a copy: what its former host asked for goes on without one.
        """
        channel = cls(where, on_close, forked=forked)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                channel._transport, _ = await loop.create_connection(lambda: _Receiver(channel), sock=sock)
        except BaseException:
            sock.close()
            channel._release()
            raise
        channel._greet()
        channel._repeat = loop.call_later(_REPEAT_HELLO, channel._greet_again)
        return channel

    @property
    def closed(self) -> bool:
        """No request can be sent any more."""
        return self._broken is not None

    async def hello(self, timeout: float = REQUEST_LIMIT) -> Hello:
        """Ask who is there. Raises OutcomeUnknown when nobody answers in time, GuestProtocolError."""
        answer = await self.ask({"op": "hello"}, timeout)
        return self.checked(lambda: _hello(answer))

    async def resume(
        self, identity: Identity, timeout: float = REQUEST_LIMIT, *, advance_ns: int | None = None
    ) -> Resumed:
        """Tell a restored guest the time and who it is now, and give it entropy of its own.

        The guest is nobody's sandbox until this has returned. Its wall clock is stepped by `advance_ns`, the time that
        it did not live through; without that it is set to the host's of the moment of sending.
        """
        message = {
            "op": "resume",
            "hostname": identity.hostname,
            "machine_id": identity.machine_id,
            "generation": identity.generation,
            "entropy": secrets.token_hex(64),
            "wall_clock_ns": time.time_ns(),
            "advance_ns": advance_ns,
        }
        # Sent along with the greeting: a restored guest's first steps are slow, and a snapshot holds no torn frame.
        exchange = await self.open(message, deadline=time.monotonic() + timeout, welcomed=False)
        answer = await exchange.result()
        resumed = self.checked(
            lambda: Resumed(
                _whole(answer, "wall_clock_ns"),
                _text(answer, "generation"),
                _text(answer, "boot_id"),
                _whole(answer, "dropped"),
                _orphans(answer),
            )
        )
        if resumed.generation != identity.generation:
            raise self.violated("the guest acknowledged another generation")
        return resumed

    async def orphans(self, timeout: float = REQUEST_LIMIT) -> tuple[Orphan, ...]:
        """What runs in a fork with nobody to answer to, as it was when the fork began."""
        answer = await self.ask({"op": "orphans"}, timeout)
        return self.checked(lambda: _orphans(answer))

    async def clock(self, *, advance_ns: int = 0, timeout: float = REQUEST_LIMIT) -> int:
        """Step the guest's wall clock; what it shows then, in ns."""
        step = {"advance_ns": advance_ns} if advance_ns else {}
        answer = await self.ask({"op": "clock", **step}, timeout)
        return self.checked(lambda: _whole(answer, "wall_clock_ns"))

    async def sync(self, timeout: float = 120.0) -> None:
        """Have the guest write out its file systems."""
        await self.ask({"op": "sync"}, timeout)

    async def ask(self, message: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """A request whose only answer is the final one. Raises SandboxError with the guest's reason."""
        exchange = await self.open(message, deadline=time.monotonic() + timeout)
        return await exchange.result()

    async def open(
        self,
        message: Mapping[str, Any],
        *,
        deadline: float | None = None,
        idle: float = 60.0,
        welcomed: bool = True,
    ) -> Exchange:
        """Send a request. Every wait on it ends at `deadline` (monotonic), or after `idle` seconds without progress.

        `welcomed=False` does not wait for the guest's welcome first. Raises SandboxError when it was not sent at all.
        """
        payload = wire.pack(message)
        if len(payload) > wire.MAX_PAYLOAD:
            raise SandboxError(
                f"the request has {len(payload)} bytes",
                rule=f"arguments and environment together have at most {wire.MAX_PAYLOAD} bytes",
                remedy="write the text to a file in the sandbox, or pass it on stdin",
            )
        self._usable()
        if welcomed:
            limit = idle if deadline is None else max(0.0, deadline - time.monotonic())
            await self.ready(min(limit, REQUEST_LIMIT))
        stream, self._next = self._next, self._next + 1
        exchange = Exchange(self._send, stream, deadline=deadline, idle=idle)
        self._exchanges[stream] = exchange
        self._send(Kind.REQUEST, stream, payload)
        return exchange

    async def ready(self, timeout: float) -> Hello:
        """Wait for the guest's welcome: nothing is sent before it. Raises SandboxError."""
        self._usable()
        try:
            async with asyncio.timeout(timeout):
                greeting = await asyncio.shield(self._welcome)
        except TimeoutError:
            raise SandboxError(
                f"the guest did not answer within {timeout:.0f} s; nothing was sent to it", where=self.where
            ) from None
        self._usable()  # it may have broken in the same breath as it was welcomed
        return greeting

    def _usable(self) -> None:
        if self._broken:
            raise SandboxError("the connection to the guest is closed", where=self.where) from self._broken

    async def close(self) -> None:
        """Hang up. The guest kills the commands that still run for this channel."""
        self._break(OutcomeUnknown("the connection to the guest was closed", where=self.where))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def checked(self, read: Callable[[], T]) -> T:
        """`read()` an answer; one that has not the right fields breaks the channel. Raises GuestProtocolError."""
        try:
            return read()
        except WireError as error:
            raise self.violated(str(error)) from None

    def receive(self, data: bytes) -> None:
        """Bytes from the guest."""
        try:
            if self._foreign is not None:
                data = self._until_welcome(data)
            for frame in self._decoder.feed(data):
                self._frame(frame)
                if self._broken:
                    return
        except WireError as error:
            self.violated(str(error))

    def lost(self) -> None:
        """The guest's machine hung up."""
        self._break(OutcomeUnknown("the connection to the guest broke", where=self.where))

    def _greet(self) -> None:
        self._send(Kind.HELLO, self._nonce, wire.pack({"version": wire.VERSION, "forked": self._forked}))

    def _greet_again(self) -> None:
        """The guest may be waiting for the rest of a frame that an earlier host never finished: fill it up."""
        if not self._welcome.done() and self._transport:
            self._transport.write(bytes(wire.HEADER.size + wire.MAX_PAYLOAD))
            self._greet()

    def _until_welcome(self, data: bytes) -> bytes:
        """Skip what was meant for an earlier connection. The welcome is known by our nonce."""
        held = self._foreign
        assert held is not None
        held += data
        mark = wire.HEADER.pack(wire.MAGIC, Kind.WELCOME, self._nonce, 0)[: wire.HEADER.size - 4]
        found = held.find(mark)
        if found >= 0:
            self._foreign = None
            return bytes(held[found:])
        self._dropped += max(0, len(held) - len(mark))
        del held[: -len(mark)]
        if self._dropped > _MOST_FOREIGN:
            raise WireError("the guest sends without end and does not answer")
        return b""

    def _frame(self, frame: Frame) -> None:
        if frame.kind == Kind.WELCOME:
            if frame.stream == 0:
                self._break(OutcomeUnknown("the guest's agent was started anew", where=self.where))
            elif frame.stream != self._nonce:
                raise WireError("a welcome for someone else")
            elif not self._welcome.done():
                greeting = _hello(wire.unpack(frame.payload))
                if greeting.version != wire.VERSION:
                    raise WireError(f"the guest speaks version {greeting.version}, we {wire.VERSION}")
                self._welcome.set_result(greeting)
            return
        exchange = self._exchanges.get(frame.stream)
        if exchange is None:
            raise WireError(f"an answer to request {frame.stream}, which is not open")
        exchange.frame(frame)
        if frame.kind == Kind.FINAL:
            del self._exchanges[frame.stream]

    def _send(self, kind: Kind, stream: int, payload: bytes = b"") -> None:
        if self._transport and not self._broken:
            self._transport.write(wire.encode(kind, stream, payload))

    def violated(self, reason: str) -> GuestProtocolError:
        """Break the channel because of what the guest said; raise the result."""
        error = GuestProtocolError(
            f"the guest broke the protocol: {reason}",
            where=self.where,
            remedy="kill this sandbox; something in it speaks in the agent's place",
        )
        self._break(error)
        return error

    def _break(self, error: SandboxError) -> None:
        if self._broken:
            return
        self._broken = error
        if self._repeat:
            self._repeat.cancel()
        if self._transport:
            self._transport.abort()
        for exchange in self._exchanges.values():
            exchange.fail(error)
        self._exchanges.clear()
        if not self._welcome.done():
            self._welcome.set_exception(SandboxError(error.what, where=self.where))
        self._release()

    def _release(self) -> None:
        call, self._on_close = self._on_close, None
        if call:
            call()


class _Receiver(asyncio.Protocol):
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def data_received(self, data: bytes) -> None:
        self._channel.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel.lost()


def _hello(answer: Mapping[str, Any]) -> Hello:
    return Hello(_whole(answer, "version"), _text(answer, "boot_id"), _text(answer, "generation"))


def _whole(answer: Mapping[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError(f"{name} is no whole number")
    return value


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str) or len(value) > 1024:
        raise WireError(f"{name} is no short text")
    return value


def _orphans(answer: Mapping[str, Any]) -> tuple[Orphan, ...]:
    found = answer.get("orphans")
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise WireError("orphans is no list of objects")
    return tuple(Orphan(_whole(entry, "pid"), printable(_text(entry, "command"))) for entry in found)
