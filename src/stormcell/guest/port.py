"""One agent port: frames in, frames out, and fair turns for the streams that have something to say."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from stormcell.guest import wire
from stormcell.guest.loop import Loop
from stormcell.guest.wire import Allowance, Decoder, Frame, Kind, WireError

# Turns are short so that no port starves another; a port whose answers pile up is not read any further.
_READS = 64
_FRAMES = 16
_QUEUE = 512 * 1024
_WRITE = 32 * 1024
_SETTLE = 0.2


class Stream(Protocol):
    """What serves one request."""

    def frame(self, frame: Frame) -> None:
        """INPUT, SIGNAL or CANCEL for this stream. Raises WireError."""

    def abandon(self) -> None:
        """The host is gone: stop, say nothing."""

    def orphan(self) -> Mapping[str, Any] | None:
        """The host that asked went on with another copy of this machine: say nothing any more.

        What it is if it goes on by itself; None when it was abandoned.
        """


class Outlet:
    """One pipe whose bytes go to the host as they are granted."""

    def __init__(self, port: Port, stream: int, kind: Kind, fd: int, ended: Callable[[], None]) -> None:
        self.kind = kind
        self.stream = stream
        self.allowance = Allowance(wire.OUTPUT_WINDOW)
        self.open = True
        self._port = port
        self._fd = fd
        self._ended = ended
        self._readable = False
        self._orphan = False
        port.loop.watch(fd, self._edge)

    @property
    def blocked(self) -> bool:
        """The host has not granted what it would take to go on."""
        return self.allowance.left == 0 and not self._orphan

    @property
    def ready(self) -> bool:
        """There may be bytes, and they may be sent."""
        return self.open and self._readable and self.allowance.left > 0

    def _edge(self, events: int) -> None:
        if self._orphan:
            self._discard()
        elif events & ~select.EPOLLOUT:
            self._readable = True
            self._port.offer(self)

    def orphan(self) -> None:
        """Nobody listens: read on, so that the writer does not block, and keep nothing."""
        self._orphan = True
        self._discard()

    def _discard(self) -> None:
        for _ in range(_READS):
            if not self.open:
                return
            try:
                if not os.read(self._fd, 65536):
                    self.end(silent=True)
                    self._ended()
                    return
            except BlockingIOError:
                return
        self._port.loop.soon(self._discard)

    def next_frame(self) -> bytes | bytearray | None:
        """The next piece as a frame, the last one empty; None when the pipe is empty for now."""
        size = min(wire.MAX_PAYLOAD, self.allowance.left)
        frame = bytearray(wire.HEADER.size + size)
        try:
            count = os.readv(self._fd, [memoryview(frame)[wire.HEADER.size :]])
        except BlockingIOError:
            self._readable = False
            return None
        if count == 0:
            self.end()
            return None
        self.allowance.take(count)
        wire.HEADER.pack_into(frame, 0, wire.MAGIC, self.kind, self.stream, count)
        del frame[wire.HEADER.size + count :]
        return frame

    def end(self, *, silent: bool = False) -> None:
        """Close the pipe and tell the host that no more comes."""
        if not self.open:
            return
        self.open = False
        self._port.loop.unwatch(self._fd)
        os.close(self._fd)
        if not silent:
            self._port.send(self.kind, self.stream)
            self._ended()


class Port:
    """A connection that the host may drop and make anew at any time, with no more warning than a hang-up."""

    def __init__(
        self,
        loop: Loop,
        fd: int,
        *,
        accept: Callable[[Port, int, bytes], None],
        greet: Callable[[], Mapping[str, Any]],
        part: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.streams: dict[int, Stream] = {}
        self.outlets: dict[tuple[int, Kind], Outlet] = {}
        self._fd = fd
        self._accept = accept
        self._greet = greet
        self._part = part
        self._nonce = 0
        self._decoder = Decoder(wire.TO_GUEST, resync=True)
        self._queue: deque[bytes | bytearray | memoryview] = deque()
        self._queued = 0
        self._turn: deque[Outlet] = deque()
        self._scheduled = False
        self._heard = 0.0
        self._doubted = False
        os.set_blocking(fd, False)
        loop.watch(fd, self._edge)
        self.send(Kind.WELCOME, 0, wire.pack(greet()))  # to a host that still speaks to an agent that died

    def send(self, kind: Kind, stream: int, payload: bytes = b"") -> None:
        """Queue one frame."""
        self._push(wire.encode(kind, stream, payload))
        self.schedule()

    def finish(self, stream: int, message: Mapping[str, Any]) -> None:
        """The final answer; the stream is over."""
        self.streams.pop(stream, None)
        self.send(Kind.FINAL, stream, wire.pack(message))

    def offer(self, outlet: Outlet) -> None:
        """`outlet` may have something to send."""
        if outlet not in self._turn:
            self._turn.append(outlet)
        self.schedule()

    def schedule(self) -> None:
        """Write in this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self.loop.soon(self._serve)

    def add_outlet(self, stream: int, kind: Kind, fd: int, ended: Callable[[], None]) -> Outlet:
        """Send what comes out of `fd` as `kind`; `ended` after the last byte was queued."""

        def forget() -> None:
            self.outlets.pop((stream, kind), None)
            ended()

        outlet = self.outlets[stream, kind] = Outlet(self, stream, kind, fd, forget)
        return outlet

    def _edge(self, _events: int) -> None:
        self._read()
        self.schedule()

    def _serve(self) -> None:
        self._scheduled = False
        full = self._queued > _QUEUE
        if self._write() and full:
            self._read()

    def _read(self) -> None:
        """A virtio port gives at most a page at a time, so pages are gathered before they are decoded."""
        if self._queued > _QUEUE:
            return
        pieces: list[bytes] = []
        last: bytes | None = None
        for _ in range(_READS):
            try:
                last = os.read(self._fd, 4096)
            except BlockingIOError:
                last = None
            except OSError:
                last = b""
            if not last:
                break
            pieces.append(last)
        if pieces:
            for frame in self._decoder.feed(b"".join(pieces)):
                self._handle(frame)
            self._heard = time.monotonic()  # not before: to serve a frame may take long on a cold machine
        if last:
            self.loop.soon(self._read)
        elif last is not None:
            self._hung_up()

    def _hung_up(self) -> None:
        """Nobody seems to hold the other end.

        A virtio port tells of its opening on another queue than its data: what a new host sends may be read before
        the port counts as open. So soon after data, look again later.
        """
        quiet = time.monotonic() - self._heard
        if quiet >= _SETTLE:
            self._detach()
        elif not self._doubted:
            self._doubted = True
            self.loop.after(_SETTLE - quiet + 0.01, self._look_again)

    def _look_again(self) -> None:
        self._doubted = False
        self._read()

    def _write(self) -> bool:
        """False when the port takes no more for now."""
        for _ in range(_FRAMES):
            while self._queue:
                if len(self._queue) > 1:
                    self._gather()
                try:
                    count = os.write(self._fd, self._queue[0])
                except BlockingIOError:
                    return False
                except OSError:
                    self._detach()
                    return False
                self._queued -= count
                if count < len(self._queue[0]):
                    self._queue[0] = memoryview(self._queue[0])[count:]
                else:
                    self._queue.popleft()
            if not self._pull():
                return True
        self.schedule()
        return True

    def _gather(self) -> None:
        """Make one write of the small frames at the front: each write wakes the host's side."""
        small: list[bytes | bytearray | memoryview] = []
        size = 0
        while self._queue and size + len(self._queue[0]) <= _WRITE:
            size += len(self._queue[0])
            small.append(self._queue.popleft())
        if small:
            self._queue.appendleft(b"".join(small))

    def _pull(self) -> bool:
        """Queue one frame of the next outlet that has one."""
        while self._turn:
            outlet = self._turn.popleft()
            if outlet.ready:
                frame = outlet.next_frame()
                if frame is not None:
                    self._push(frame)
                    self._turn.append(outlet)
                if self._queue:
                    return True
        return False

    def _push(self, frame: bytes | bytearray) -> None:
        self._queue.append(frame)
        self._queued += len(frame)

    def _handle(self, frame: Frame) -> None:
        if frame.kind == Kind.HELLO:
            self._hello(frame)
        elif frame.kind == Kind.REQUEST:
            self._accept(self, frame.stream, frame.payload)
        elif frame.kind == Kind.CREDIT:
            self._credit(frame)
        elif stream := self.streams.get(frame.stream):
            try:
                stream.frame(frame)
            except WireError as error:
                stream.abandon()
                self.finish(frame.stream, {"error": {"kind": "request", "message": str(error)}})

    def _hello(self, frame: Frame) -> None:
        """What cannot be read is nobody's greeting."""
        if frame.stream != self._nonce:
            try:
                forked = wire.unpack(frame.payload).get("forked") is True
            except WireError:
                return
            if forked:
                self._part()
            self._reset()
            self._nonce = frame.stream
        self.send(Kind.WELCOME, frame.stream, wire.pack(self._greet()))

    def _credit(self, frame: Frame) -> None:
        try:
            kind, amount = wire.unpack_credit(frame.payload)
            if outlet := self.outlets.get((frame.stream, kind)):
                outlet.allowance.grant(amount)
                self.offer(outlet)
        except WireError:
            self._reset()

    def orphan(self) -> list[Mapping[str, Any]]:
        """Part from the host of a copied machine. What goes on without it."""
        left = [about for stream in list(self.streams.values()) if (about := stream.orphan())]
        self.streams.clear()
        self._reset()
        return left

    def _detach(self) -> None:
        """The host end is closed."""
        self._decoder.clear()
        self._reset()

    def _reset(self) -> None:
        """The host that sent the old requests is gone; another may have taken its place."""
        self._nonce = 0
        self._queue.clear()
        self._queued = 0
        self._turn.clear()
        for stream in list(self.streams.values()):
            stream.abandon()
        self.streams.clear()
        self.outlets.clear()
