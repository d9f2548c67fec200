"""The probes against real sockets, files and programs."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stormcell.guest import probes
from stormcell.guest.lifeline import Lifeline
from stormcell.guest.probes.attempts import MOST_IN_FLIGHT, arrivals
from stormcell.guest.probes.waiting import BreakableWait, Broken
from stormcell.guest.running import Runnery

Handler = Callable[[socket.socket, bytes], None]


class Server:
    """Answers every connection with `handler`, once the request's head and body came; keeps what it was sent."""

    def __init__(self, handler: Handler, family: int = socket.AF_INET) -> None:
        self.handler = handler
        self.requests: list[bytes] = []
        self.listener = socket.socket(family)
        self.listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.listener.listen(256)
        self.port: int = self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data and (piece := connection.recv(65536)):
                data += piece
            head, _, body = data.partition(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    while len(body) < int(line[15:]) and (piece := connection.recv(65536)):
                        body += piece
            self.requests.append(head + b"\r\n\r\n" + body)
            self.handler(connection, self.requests[-1])

    def close(self) -> None:
        """What still waited for a connection would take those of the next one that has its descriptor."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join(30)
        self.listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(handler: Handler, family: int = socket.AF_INET) -> Server:
        servers.append(Server(handler, family))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def says(text: bytes) -> Handler:
    return lambda connection, _: connection.sendall(text)


def status(code: int, body: bytes = b"ok") -> Handler:
    return says(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (code, len(body), body))


def http(port: int, **fields: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"method": "GET", "headers": {}, "body": None, "rate": None, "duration": None}
    defaults |= {"count": 1, "timeout": 5.0, "status": [], "url": f"http://127.0.0.1:{port}/path?q=1"}
    return defaults | fields


def alive(pid: str) -> bool:
    """A zombie that nobody reaped is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


RESERVED: list[socket.socket] = []


def free_port() -> int:
    """Nobody listens there, and nobody else gets it."""
    RESERVED.append(socket.socket())
    RESERVED[-1].bind(("127.0.0.1", 0))
    return int(RESERVED[-1].getsockname()[1])


# http: what counts as an answer


@pytest.mark.parametrize("code", [200, 204, 302, 404, 503])
def test_a_whole_answer_is_its_status_with_a_latency(serve: Callable[..., Server], code: int) -> None:
    server = serve(status(code, b"" if code == 204 else b"hello"))
    ((offset, latency, outcome),) = probes.take("http", http(server.port)).samples
    assert outcome == code
    assert offset >= 0
    assert 0 < latency < 5
    assert server.requests[0].startswith(b"GET /path?q=1 HTTP/1.1\r\n")


def silent(connection: socket.socket, _: bytes) -> None:
    time.sleep(30)


def drips(connection: socket.socket, _: bytes) -> None:
    """A byte now and then: no single wait is long."""
    connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 10000\r\n\r\n")
    for _byte in range(10000):
        connection.sendall(b"x")
        time.sleep(0.05)


def drips_its_head(connection: socket.socket, _: bytes) -> None:
    for byte in b"HTTP/1.1 200 X\r\nX-Long: " + b"y" * 10000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def endless(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


def resets(connection: socket.socket, _: bytes) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize(
    ("handler", "outcome"),
    [
        (silent, "timeout"),
        (drips, "timeout"),
        (drips_its_head, "timeout"),
        (endless, "timeout"),
        (resets, "reset"),
        (says(b""), "closed"),
        (says(b"SSH-2.0-nope\r\n"), "protocol"),
        (says(b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nfour"), "incomplete"),
        (says(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "incomplete"),
    ],
)
def test_anything_else_is_the_name_of_what_went_wrong(
    serve: Callable[..., Server], handler: Handler, outcome: str
) -> None:
    began = time.monotonic()
    patience = 0.6 if outcome == "timeout" else 20.0
    (sample,) = probes.take("http", http(serve(handler).port, timeout=patience)).samples
    assert sample[1:] == [None, outcome]
    assert time.monotonic() - began < 20, "the deadline is for the whole attempt"


def test_a_chunk_of_a_mad_length_ends_in_an_error(serve: Callable[..., Server]) -> None:
    mad = says(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + b"x" * 100000)
    (sample,) = probes.take("http", http(serve(mad).port, timeout=2.0)).samples
    assert sample[1] is None


def test_refused_and_unresolvable() -> None:
    assert probes.take("http", http(free_port())).samples[0][2] == "refused"
    unknown = http(1, url="http://no-such-name.invalid/", timeout=20.0)
    assert probes.take("http", unknown).samples[0][2] in ("resolve", "timeout")


def test_redirects_are_not_followed(serve: Callable[..., Server]) -> None:
    server = serve(says(b"HTTP/1.1 302 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"))
    assert probes.take("http", http(server.port)).samples[0][2] == 302
    assert len(server.requests) == 1


def test_a_proxy_of_the_environment_is_not_asked(serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert probes.take("http", http(serve(status(200)).port)).samples[0][2] == 200


def test_ipv6_and_names(serve: Callable[..., Server]) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    server = serve(status(200), socket.AF_INET6)
    assert probes.take("http", http(0, url=f"http://[::1]:{server.port}/")).samples[0][2] == 200


def test_head_has_no_body(serve: Callable[..., Server]) -> None:
    server = serve(says(b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n"))
    assert probes.take("http", http(server.port, method="HEAD")).samples[0][2] == 200


def test_a_body_is_new_in_every_attempt(serve: Callable[..., Server]) -> None:
    server = serve(status(201))
    body = '{"n": {n}, "key": "{uuid}"}'
    spec = http(server.port, method="POST", body=body, count=3, headers={"Content-Type": "application/json"})
    probes.take("http", spec)
    bodies = [request.partition(b"\r\n\r\n")[2] for request in server.requests]
    assert [b'"n": %d,' % number in text for number, text in enumerate(bodies, 1)] == [True] * 3
    assert len(set(bodies)) == 3
    assert all(len(text) == len(b'{"n": 1, "key": ""}') + 36 for text in bodies)
    assert b"Content-Type: application/json" in server.requests[0]


# http: when attempts are made


def test_arrivals_are_one_a_slot_and_the_seed_decides() -> None:
    times = arrivals(10.0, 3.0, "7/under.web")
    assert len(times) == 30
    assert all(number / 10 <= moment < (number + 0.5) / 10 for number, moment in enumerate(times))
    assert times == arrivals(10.0, 3.0, "7/under.web")
    assert times != arrivals(10.0, 3.0, "8/under.web")
    assert len(arrivals(0.3, 10.0, "")) == 3
    assert len(arrivals(0.1, 1.0, "")) == 1


def test_a_slow_answer_does_not_slow_the_sending(serve: Callable[..., Server]) -> None:
    under_way = most = 0
    lock = threading.Lock()

    def slow(connection: socket.socket, request: bytes) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.8)
        with lock:
            under_way -= 1
        status(200)(connection, request)

    spec = http(serve(slow).port, rate=20.0, duration=1.0, count=None, timeout=10.0)
    samples = probes.take("http", spec, seed="s").samples
    assert [sample[2] for sample in samples] == [200] * 20
    assert all(sample[1] >= 0.8 for sample in samples)
    assert most >= 10, "the tenth was sent before the first was answered"


def test_too_many_under_way_are_failures_that_are_told(serve: Callable[..., Server]) -> None:
    spec = http(serve(silent).port, rate=400.0, duration=0.25, count=None, timeout=4.0)
    taken = probes.take("http", spec)
    outcomes = [sample[2] for sample in taken.samples]
    assert len(outcomes) == 100
    assert outcomes.count("not_started") == 100 - MOST_IN_FLIGHT
    assert outcomes.count("timeout") == MOST_IN_FLIGHT
    assert f"{100 - MOST_IN_FLIGHT} attempts were not started" in taken.detail


def test_one_after_another(serve: Callable[..., Server]) -> None:
    under_way = most = 0
    lock = threading.Lock()

    def counting(connection: socket.socket, request: bytes) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)
        with lock:
            under_way -= 1
        status(200)(connection, request)

    samples = probes.take("http", http(serve(counting).port, count=8)).samples
    assert (len(samples), most) == (8, 1)
    assert [sample[0] for sample in samples] == sorted(sample[0] for sample in samples)


def test_what_is_out_of_reach_is_broken_off() -> None:
    taken = probes.take("http", http(free_port(), count=9), promising=lambda samples: len(samples) < 2)
    assert len(taken.samples) == 2
    assert "broken off after 2 of 9" in taken.detail


def test_another_thread_can_break_a_measurement_off(serve: Callable[..., Server]) -> None:
    wait = BreakableWait()
    threading.Timer(0.2, wait.break_off).start()
    began = time.monotonic()
    with pytest.raises(Broken):
        probes.take("http", http(serve(silent).port, timeout=60.0), wait=wait)
    assert time.monotonic() - began < 30
    wait.close()


def test_no_descriptor_is_left_behind(serve: Callable[..., Server]) -> None:
    server = serve(status(200))
    probes.take("http", http(server.port, count=3))
    time.sleep(0.1)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - links of descriptors
    for _ in range(20):
        probes.take("http", http(server.port, count=2))
    deadline = time.monotonic() + 30
    while len(os.listdir("/proc/self/fd")) > before + 2:  # noqa: PTH208 - links of descriptors
        assert time.monotonic() < deadline
        time.sleep(0.05)


# tcp


def test_a_handshake(serve: Callable[..., Server]) -> None:
    spec = {"address": f"127.0.0.1:{serve(silent).port}", "count": 3, "rate": None, "timeout": 5.0}
    samples = probes.take("tcp", spec).samples
    assert [sample[2] for sample in samples] == ["connected"] * 3
    assert all(sample[1] > 0 for sample in samples)
    refused = probes.take("tcp", {**spec, "address": f"127.0.0.1:{free_port()}"})
    assert [sample[1:] for sample in refused.samples] == [[None, "refused"]] * 3


# command


def run(*argv: str, **fields: Any) -> tuple[list[Any], str]:
    spec = {"run": list(argv), "number": None, "match": None, "timeout": 20.0, **fields}
    taken = probes.take("command", spec, run=Runnery(Lifeline(None)).run)
    return taken.samples[0], taken.detail


def test_exit_number_and_match() -> None:
    (_, seconds, outcome, facts), _ = run("sh", "-c", "echo rows: 1.5e3; exit 3", number="rows: (.*)", match="^rows")
    assert (outcome, facts["number"], facts["matches"]) == (3, 1500.0, True)
    assert seconds > 0


@pytest.mark.parametrize("text", ["rows: many", "rows: nan", "rows: inf", "nothing"])
def test_what_is_no_number_is_none(text: str) -> None:
    (_, _, outcome, facts), _ = run("echo", text, number="rows: (.*)", match="columns")
    assert (outcome, facts["number"], facts["matches"]) == (0, None, False)


def test_only_the_tail_of_much_output_is_kept() -> None:
    (_, _, outcome, facts), detail = run("sh", "-c", "yes early | head -c 300000; echo; echo last 7", number="last (7)")
    assert (outcome, facts["number"], len(facts["out"])) == (0, 7.0, 64 << 10)
    assert "last 64 KiB" in detail


def test_a_command_at_its_timeout_leaves_no_tree(tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 300' & echo begun; wait"
    for timeout in (1.0, 10.0):  # a machine that stood still for the shorter one has not begun
        sample, _ = run("sh", "-c", script, timeout=timeout, match="begun")
        assert sample[2] == "timeout"
        if sample[3]["out"]:
            break
    assert sample[3]["out"] == "begun\n"
    assert not alive((tmp_path / "pid").read_text().strip())


def test_no_such_program_and_death_by_signal() -> None:
    sample, _ = run("no-such-program-anywhere")
    assert sample[1:3] == [None, "not_started"]
    assert "no-such-program-anywhere" in sample[3]["err"]
    sample, _ = run("sh", "-c", "kill -9 $$")
    assert sample[2] == "signal:9"


def test_a_daemon_that_holds_the_pipe_does_not_hold_the_probe() -> None:
    began = time.monotonic()
    sample, _ = run("sh", "-c", "sleep 60 & echo started", match="started")
    assert (sample[2], sample[3]["matches"]) == (0, True)
    assert time.monotonic() - began < 30


# file


def test_files(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\nready\n")

    def look(name: str, match: str | None = None) -> list[Any]:
        sample: list[Any] = probes.take("file", {"path": str(tmp_path / name), "match": match}).samples[0]
        return sample

    assert look("log", "^ready|re") == [0.0, None, "exists", {"size": 10, "matches": True}]
    assert look("log", "absent")[3]["matches"] is False
    assert look("none")[2] == "absent"
    assert look("log/none")[2] == "absent"
    assert look(".")[2] == "exists"
    (tmp_path / "loop").symlink_to("loop")
    assert look("loop")[2] == "ELOOP"


def test_a_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    sample = probes.take("file", {"path": str(tmp_path / "fifo"), "match": "x"}).samples[0]
    assert sample[2:] == ["exists", {"size": 0, "matches": None}]
