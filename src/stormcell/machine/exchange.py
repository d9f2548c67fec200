"""One request to the guest, from the sending to the final answer: its data both ways, its credit, its deadlines."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from stormcell.guest import wire
from stormcell.guest.wire import Allowance, Frame, Intake, Kind, WireError
from stormcell.spec.errors import OutcomeUnknown, SandboxError

_STALLED = 60.0
"""Seconds that unread output may excuse a missing end: after that, nobody reads it."""


class Send(Protocol):
    """Puts a frame on the wire, or nothing when the channel is broken."""

    def __call__(self, kind: Kind, stream: int, payload: bytes = b"") -> None:
        """Never blocks: what is sent is bounded by the guest's credit."""


class _Incoming:
    """Unread data of one kind, at most a window of it."""

    def __init__(self) -> None:
        self.chunks: deque[bytes] = deque()
        self.intake = Intake(wire.OUTPUT_WINDOW)
        self.ended = False


class Exchange:
    """Made by `Channel.open`. Frames come in through `frame`, failures of the channel through `fail`."""

    def __init__(self, send: Send, stream: int, *, deadline: float | None, idle: float) -> None:
        self._send = send
        self._stream = stream
        self._deadline = deadline
        self._idle = idle
        self._changed = asyncio.Event()
        self._incoming = {Kind.OUTPUT: _Incoming(), Kind.ERRORS: _Incoming()}
        self._allowance = Allowance(wire.INPUT_WINDOW)
        self._input_ended = False
        self._cancelled = False
        self._started: Mapping[str, Any] | None = None
        self._final: Mapping[str, Any] | None = None
        self._failure: SandboxError | None = None
        self._last_read = time.monotonic()

    def frame(self, frame: Frame) -> None:
        """A frame of this stream. Raises WireError for what no agent sends."""
        if frame.kind in (Kind.OUTPUT, Kind.ERRORS):
            self._data(self._incoming[frame.kind], frame.payload)
        elif frame.kind == Kind.CREDIT:
            kind, amount = wire.unpack_credit(frame.payload)
            if kind != Kind.INPUT:
                raise WireError("credit for what the guest itself sends")
            self._allowance.grant(amount)
        elif frame.kind == Kind.STARTED:
            if self._started is not None:
                raise WireError("a request that started twice")
            self._started = wire.unpack(frame.payload)
        elif frame.kind == Kind.FINAL:
            self._final = wire.unpack(frame.payload)
        self._changed.set()

    def fail(self, error: SandboxError) -> None:
        """No more will come."""
        self._failure = self._failure or error
        self._changed.set()

    async def started(self) -> Mapping[str, Any] | None:
        """What the guest said at the start; None when the final answer came instead."""
        await self._until(lambda: self._started is not None or self._final is not None)
        return self._started

    async def final(self) -> Mapping[str, Any]:
        """The final answer, an error of the guest's included. Data that is unread stays readable."""
        await self._until(lambda: self._final is not None)
        assert self._final is not None
        return self._final

    async def result(self) -> Mapping[str, Any]:
        """The final answer. Raises SandboxError when it is an error."""
        answer = await self.final()
        if "error" in answer:
            raise SandboxError(f"the guest refused the request: {error_text(answer)}")
        return answer

    async def read(self, kind: Kind) -> bytes:
        """The next piece of OUTPUT or ERRORS; empty at the end. Data that came before a failure is given out first."""
        incoming = self._incoming[kind]
        if not incoming.chunks:
            await self._until(lambda: bool(incoming.chunks) or incoming.ended or self._final is not None)
        self._last_read = time.monotonic()
        if not incoming.chunks:
            return b""
        chunk = incoming.chunks.popleft()
        grant = incoming.intake.consumed(len(chunk))
        if grant and not self._cancelled and self._final is None:
            self._send(Kind.CREDIT, self._stream, wire.pack_credit(kind, grant))
        return chunk

    async def chunks(self, kind: Kind) -> AsyncIterator[bytes]:
        """Every piece until the end."""
        while chunk := await self.read(kind):
            yield chunk

    async def write(self, data: bytes | bytearray | memoryview) -> bool:
        """Send INPUT as the guest makes room. False when the request is over and nobody takes it."""
        view = memoryview(data).cast("B")
        while view:
            await self._until(lambda: self._allowance.left > 0 or self._final is not None)
            if self._final is not None:
                return False
            size = min(len(view), self._allowance.left, wire.MAX_PAYLOAD)
            self._allowance.take(size)
            self._send(Kind.INPUT, self._stream, bytes(view[:size]))
            view = view[size:]
        return True

    def end_input(self) -> None:
        """No more INPUT. May be said twice."""
        if not self._input_ended and self._final is None:
            self._input_ended = True
            self._send(Kind.INPUT, self._stream)

    def signal(self, number: int) -> None:
        """Pass a signal on; a request that is over takes none."""
        if self._final is None:
            self._send(Kind.SIGNAL, self._stream, wire.pack({"signal": number}))

    def cancel(self) -> None:
        """Have the guest stop it; the final answer still comes. Unread data is forgotten."""
        if not self._cancelled and self._final is None:
            self._cancelled = True
            self._send(Kind.CANCEL, self._stream)
        for incoming in self._incoming.values():
            incoming.chunks.clear()
        self._changed.set()

    def _data(self, incoming: _Incoming, data: bytes) -> None:
        if incoming.ended:
            raise WireError("data after its end")
        incoming.intake.received(len(data))
        if not data:
            incoming.ended = True
        elif not self._cancelled:
            incoming.chunks.append(data)

    async def _until(self, met: Callable[[], bool]) -> None:
        limit = time.monotonic() + self._idle if self._deadline is None else self._deadline
        while not met():
            if self._failure:
                raise self._failure
            self._changed.clear()
            try:
                async with asyncio.timeout(limit - time.monotonic()):
                    await self._changed.wait()
                if self._deadline is None:
                    limit = time.monotonic() + self._idle
            except TimeoutError:
                if self._unread() and time.monotonic() - self._last_read < _STALLED:
                    limit = time.monotonic() + 1
                    continue
                self.fail(OutcomeUnknown("the guest did not answer in time; what it did is not known"))
                self.cancel()

    def _unread(self) -> bool:
        return any(incoming.chunks for incoming in self._incoming.values())


def error_text(answer: Mapping[str, Any]) -> str:
    """The guest's reason, made fit for a terminal."""
    error = answer.get("error")
    text = error.get("message", "") if isinstance(error, dict) else ""
    return printable(str(text))


def printable(text: str, limit: int = 500) -> str:
    """What a guest wrote, with control characters and lone surrogates escaped and its length bounded."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:limit]
    )
    return shown + ("..." if len(text) > limit else "")
