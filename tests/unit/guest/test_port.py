import os
import socket
import time

from stormcell.guest import port as module
from stormcell.guest import wire
from stormcell.guest.loop import Loop
from stormcell.guest.port import Port
from stormcell.guest.wire import Decoder, Kind


def test_an_answer_is_not_dropped_when_the_port_looks_hung_up_after_a_slow_request(monkeypatch):
    """A restored guest may hear of its former host's hang-up while it serves the first request of the new one."""
    host, guest = socket.socketpair()
    host.settimeout(10)
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
    loop.after(1.0, lambda: setattr(loop, "running", False))
    loop.run()
    frames = list(Decoder(wire.TO_HOST, resync=False).feed(host.recv(65536)))
    assert [frame.kind for frame in frames] == [Kind.WELCOME, Kind.FINAL]
    host.close()
    guest.close()
