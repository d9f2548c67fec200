import os
import socket
import time

from stormcell.guest import port as module
from stormcell.guest import wire
from stormcell.guest.loop import Loop
from stormcell.guest.port import Port
from stormcell.guest.wire import Decoder, Frame, Kind


def received(host: socket.socket) -> bytes:
    try:
        return host.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


def test_an_answer_is_not_dropped_when_the_port_looks_hung_up_after_a_slow_request(monkeypatch):
    """A restored guest may hear of its former host's hang-up while it serves the first request of the new one."""
    host, guest = socket.socketpair()
    loop = Loop(lambda error: None)

    def accept(served: Port, stream: int, _payload: bytes) -> None:
        time.sleep(module._SETTLE * 1.5)
        served.finish(stream, {"done": True})

    Port(loop, guest.fileno(), accept=accept, greet=dict, part=lambda: None)
    reads = [wire.encode(Kind.REQUEST, 1, b"{}"), b"", b""]
    real = os.read

    def read(fd: int, size: int) -> bytes:
        if fd == guest.fileno() and reads:
            return reads.pop(0)
        return real(fd, size)

    monkeypatch.setattr(os, "read", read)
    decoder = Decoder(wire.TO_HOST, resync=False)
    frames: list[Frame] = []
    deadline = time.monotonic() + 60

    def look() -> None:
        frames.extend(decoder.feed(received(host)))
        loop.running = len(frames) < 2 and time.monotonic() < deadline
        loop.after(0.1, look)

    loop.after(0.1, look)
    loop.run()
    assert [frame.kind for frame in frames] == [Kind.WELCOME, Kind.FINAL]
    host.close()
    guest.close()
