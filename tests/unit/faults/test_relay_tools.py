"""The guest's relay without a guest: certificates that OpenSSL judges, hellos, and real connections over loopback."""

import http.client
import json
import re
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell.guest.tools.relay import certificates, ecdsa, flow, tlsface, tlshello
from stormcell.guest.tools.relay import tool as relay
from stormcell.guest.tools.relay.ecdsa import EcKey, RsaKey
from stormcell.guest.tools.relay.flow import Relay
from stormcell.guest.tools.relay.orders import KEYS_KEPT, OTHERS, Ledger, Orders
from stormcell.guest.tools.relay.tlsface import Face

# -- numbers and certificates


def test_known_points_of_the_curve():
    """NIST's test vectors for P-256: k = 2 and k = 112233445566778899."""
    assert ecdsa.multiply(2)[0] == 0x7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978
    assert ecdsa.multiply(112233445566778899)[0] == 0x339150844EC15234807FE862A86BE77977DBFB3AE3D96F4C22795513AEAAB82F
    assert ecdsa.multiply(ecdsa.N - 1) == (ecdsa.G[0], ecdsa.P - ecdsa.G[1])


@given(st.integers(1, ecdsa.N - 2))
@settings(max_examples=25, deadline=None)
def test_any_multiple_is_on_the_curve_and_adds_up(number):
    b = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
    x, y = ecdsa.multiply(number)
    assert (y * y - x**3 + 3 * x - b) % ecdsa.P == 0
    one, more = ecdsa._add((x, y, 1), (*ecdsa.G, 1)), ecdsa.multiply(number + 1)
    inverse = pow(one[2], -1, ecdsa.P)
    assert (one[0] * inverse**2 % ecdsa.P, one[1] * inverse**3 % ecdsa.P) == more


def handshake(face: Face, name: str, known: str, verify: bool = True) -> str:
    """A real handshake in memory: what OpenSSL's client says to the certificate."""
    context = ssl.create_default_context(cadata=known) if verify else ssl._create_unverified_context()
    ends = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    client = context.wrap_bio(*ends[0], server_hostname=name)
    server = face.context(name).wrap_bio(*ends[1], server_side=True)
    for _ in range(4):
        for tls in (client, server):
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            ends[1][0].write(ends[0][1].read())
            ends[0][0].write(ends[1][1].read())
    return "accepted"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("expired", "certificate has expired"),
        ("not-yet-valid", "certificate is not yet valid"),
        ("wrong-name", "Hostname mismatch, certificate is not valid for 'a.test'."),
        ("", "accepted"),
    ],
)
def test_only_what_was_asked_for_is_wrong(problem, said):
    face = Face(Orders("certificate", problem=problem, delay=86400.0), "An authority")
    assert face.issuer is not None
    known = certificates.pem("CERTIFICATE", face.issuer.certificate)
    assert handshake(face, "a.test", known) == said
    if problem != "wrong-name":
        assert handshake(face, "127.0.0.1", known) == said
    other = certificates.pem("CERTIFICATE", certificates.authority("Another", EcKey.make()).certificate)
    assert handshake(face, "a.test", other).startswith("self-signed certificate in")
    assert handshake(face, "a.test", known, verify=False) == "accepted"


def test_a_certificate_that_signs_itself():
    known = certificates.pem("CERTIFICATE", certificates.authority("Another", EcKey.make()).certificate)
    assert (
        handshake(Face(Orders("certificate", problem="self-signed"), ""), "a.test", known) == "self-signed certificate"
    )


def openssl(*words: str, stdin: str = "") -> str:
    return subprocess.run(["openssl", *words], input=stdin, capture_output=True, text=True, check=True).stdout


KEYS = {
    "rsa": ["genrsa", "2048"],
    "rsa-old": ["genrsa", "-traditional", "2048"],
    "ec": ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "ec-old": ["ecparam", "-genkey", "-name", "prime256v1"],
}


@pytest.mark.parametrize("kind", KEYS)
def test_an_authority_of_the_users_signs(kind, tmp_path):
    key, ca = tmp_path / "ca.key", tmp_path / "ca.pem"
    key.write_text(openssl(*KEYS[kind]))
    openssl("req", "-x509", "-key", str(key), "-subj", "/O=Ours/CN=ca", "-days", "9", "-out", str(ca),
            "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    face = Face(Orders("certificate", problem="expired", issuer=(str(ca), str(key))), "")
    assert handshake(face, "a.test", ca.read_text()) == "certificate has expired"
    fine = Face(Orders("certificate", problem="", issuer=(str(ca), str(key))), "")
    assert handshake(fine, "a.test", ca.read_text()) == "accepted"


def test_a_key_that_cannot_be_used_is_refused(tmp_path):
    key, ca = tmp_path / "ca.key", tmp_path / "ca.pem"
    ca.write_text(certificates.pem("CERTIFICATE", certificates.authority("An authority", EcKey.make()).certificate))
    made = [openssl(*words.split()) for words in ("genpkey -algorithm ed25519", "ecparam -genkey -name secp384r1",
                                                  "genrsa -aes128 -passout pass:secret 2048")]  # fmt: skip
    for text in ("", "nonsense", *made):
        key.write_text(text)
        with pytest.raises(ValueError, match="no RSA or P-256 key without a passphrase"):
            certificates.issuer_of(str(ca), str(key))
    with pytest.raises(ValueError, match="no certificate in"):
        certificates.issuer_of(str(key), str(key))
    assert isinstance(certificates._private("RSA PRIVATE KEY", b"\x30\x00"), RsaKey | None)


@given(st.binary(max_size=200), st.sampled_from(["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_no_key_and_no_hello_without_a_crash(data, kind):
    certificates._private(kind, data)
    tlshello.read(data)
    tlshello.read(b"\x16\x03\x01" + data)


def hello(name: str | None) -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl._create_unverified_context()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("name", ["DB.example.org", None])
def test_a_real_hello_is_read_at_any_cut(name):
    data = hello(name)
    assert tlshello.read(data) == tlshello.Hello((name or "").lower())
    assert all(tlshello.read(data[:cut]) is True for cut in range(1, len(data)))
    record, split = data[5:], 40  # the same message in two records
    parts = [b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in (record[:split], record[split:])]
    assert tlshello.read(b"".join(parts)) == tlshello.Hello((name or "").lower())


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"SSH-2.0-x\r\n", b"\x16\x02\0\0\1", b"\x17\x03\x03\0\1x",
                                  b"\x16\x03\x01\0\4\2\0\0\0"])  # fmt: skip
def test_what_is_no_hello_passes(data):
    assert tlshello.read(data) is False


# -- real connections


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"x" * int(self.path[1:] or 2)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


Start = Callable[..., tuple[Ledger, int]]


@pytest.fixture
def relayed(monkeypatch) -> Iterator[Start]:
    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True).start()
    targets = [web.server_address[:2]]
    monkeypatch.setattr(flow, "original_of", lambda connection: targets[-1])
    monkeypatch.setattr(tlsface, "original_of", lambda connection: targets[-1])

    def start(orders: Orders, server: tuple[str, int] | None = None, face: Face | None = None) -> tuple[Ledger, int]:
        targets.extend([server] if server else [])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ledger = Ledger(orders)
        made = Relay(ledger, port, 0, face)
        threading.Thread(target=made.run, daemon=True).start()
        return ledger, port

    yield start
    web.shutdown()
    web.server_close()


def get(port: int, size: int = 10, times: int = 1) -> list[tuple[int, int, float]]:
    """Status, size and seconds of each request on one connection."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    found = []
    try:
        for _ in range(times):
            began = time.monotonic()
            client.request("GET", f"/{size}")
            answer = client.getresponse()
            found.append((answer.status, len(answer.read()), time.monotonic() - began))
    finally:
        client.close()
    return found


def quick(seconds: Callable[[], float], bound: float) -> None:
    """The best of some is below it: a busy machine only adds."""
    assert any(seconds() < bound for _ in range(5))


def test_the_first_byte_of_every_answer_is_late(relayed):
    ledger, port = relayed(Orders("first-byte", delay=0.2))
    found = get(port, 100_000, times=2)
    assert [(status, size) for status, size, _ in found] == [(200, 100_000)] * 2
    assert all(took >= 0.2 for _, _, took in found)
    assert ledger.counts.hits == 2
    quick(lambda: get(port, 100_000)[0][2], 1.5)
    quick(lambda: ledger.counts.held_least if get(port) else 0.0, 0.3)
    assert 0.2 <= ledger.counts.held_least <= ledger.counts.held_most


def test_an_answer_trickles(relayed):
    ledger, port = relayed(Orders("slow-body", rate=4000))
    status, size, took = get(port, 2000)[0]
    assert (status, size) == (200, 2000)
    assert took >= 0.45
    quick(lambda: get(port, 2000)[0][2], 1.5)
    assert ledger.counts.bytes >= 2000


@pytest.mark.parametrize("after", [0, 50, 500])
def test_a_connection_breaks_after_so_many_bytes(relayed, after):
    ledger, port = relayed(Orders("abort", after=after))
    got = b""
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(b"GET /1000 HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            while piece := client.recv(4096):
                got += piece
    assert len(got) == after
    assert ledger.counts.hits == 1


def test_a_status_in_place_of_the_server_and_only_for_http(relayed):
    ledger, port = relayed(Orders("status", status=503))
    assert get(port)[0][:2] == (503, 15)
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(b"hello there\r\n")
        assert b"400" in client.recv(4096), "the server's own answer to nonsense"
    assert (ledger.counts.hits, ledger.counts.passed) == (1, 1)


def test_half_of_the_connections_meet_it(relayed):
    ledger, port = relayed(Orders("status", status=503, share=0.5))
    said = [get(port)[0][0] for _ in range(60)]
    assert 10 <= said.count(503) <= 50
    assert said.count(503) + said.count(200) == 60
    assert (ledger.counts.hits, ledger.counts.passed) == (said.count(503), said.count(200))


def test_a_server_that_is_not_there_is_a_reset(relayed):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = free.getsockname()
        ledger, port = relayed(Orders("first-byte", delay=0.1), server=nobody)
        with pytest.raises(ConnectionResetError):
            get(port)
    assert ledger.counts.unreachable == 1


class Tls(socketserver.BaseRequestHandler):
    """Says what it was told."""

    def handle(self) -> None:
        try:
            with Tls.context.wrap_socket(self.request, server_side=True) as connection:
                while data := connection.recv(4096):
                    connection.sendall(data)
        except OSError:
            pass

    context: ssl.SSLContext


@pytest.fixture
def tls_server() -> Iterator[tuple[tuple[str, int], str]]:
    """Its address and its authority, in PEM."""
    face = Face(Orders("certificate", problem=""), "The real authority")
    assert face.issuer is not None
    Tls.context = face.context("a.test")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tls) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield (
            ("127.0.0.1", server.socket.getsockname()[1]),
            certificates.pem("CERTIFICATE", face.issuer.certificate),
        )
        server.shutdown()


def secure(port: int, name: str, known: str | None, timeout: float = 30.0) -> str:
    context = ssl.create_default_context(cadata=known) if known else ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        plain.settimeout(timeout)
        try:
            with context.wrap_socket(plain, server_hostname=name) as connection:
                for text in (b"ping" * 20_000, b"more"):
                    connection.sendall(text)
                    got = b""
                    while len(got) < len(text):
                        got += connection.recv(65536)
                    assert got == text
                return "served"
        except TimeoutError:
            return "timeout"
        except ssl.SSLCertVerificationError as error:
            return error.verify_message


def test_a_handshake_stalls_for_the_names_that_are_meant(relayed, tls_server):
    server, known = tls_server
    ledger, port = relayed(Orders("stall", names=("a.test",)), server)
    assert secure(port, "b.test", None) == "served"
    assert secure(port, "a.test", known, timeout=0.3) == "timeout"
    deadline = time.monotonic() + 60
    while not ledger.counts.outcomes and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (ledger.counts.hits, ledger.counts.passed) == (1, 1)
    assert re.fullmatch(r"the client closed the connection after [0-9.]+ s", next(iter(ledger.counts.outcomes)))


def test_a_handshake_is_late_and_what_follows_is_not(relayed, tls_server):
    server, known = tls_server
    ledger, port = relayed(Orders("stall", delay=0.3), server)

    def served() -> float:
        began = time.monotonic()
        assert secure(port, "a.test", known) == "served"
        took = time.monotonic() - began
        assert took >= 0.3
        return took

    quick(served, 2)
    assert ledger.counts.hits >= 1


def test_alerts_of_clients_and_a_client_that_takes_anything(relayed, tls_server):
    server, known = tls_server
    face = Face(Orders("certificate", problem="expired"), "The fault's authority")
    assert face.issuer is not None
    both = known + certificates.pem("CERTIFICATE", face.issuer.certificate)
    ledger, port = relayed(Orders("certificate", problem="expired"), server, face)
    assert secure(port, "a.test", both) == "certificate has expired"
    assert secure(port, "a.test", known).startswith("self-signed certificate in")
    assert secure(port, "a.test", None) == "served", "by the real server"
    deadline = time.monotonic() + 60
    while sum(ledger.counts.outcomes.values()) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ledger.counts.outcomes == {
        "alert certificate_expired (45) from the client": 1,
        "alert unknown_ca (48) from the client": 1,
        "ACCEPTED: the client took the certificate": 1,
    }


# -- the tool


def test_trust_is_added_and_taken_out_and_nothing_else_changes(tmp_path):
    bundle = tmp_path / "ca.pem"
    before = "# authorities\nx\xff\n"
    bundle.write_text(before, encoding="latin-1")
    bundle.chmod(0o640)
    relay._trust("bad", str(bundle), "AUTHORITY\n")
    relay._trust("other", str(bundle), "ANOTHER\n")
    assert "AUTHORITY" in bundle.read_text(encoding="latin-1")
    with bundle.open("a") as file:
        file.write("added meanwhile\n")
    for _ in range(2):
        relay.distrust("bad", str(bundle))
        assert "AUTHORITY" not in bundle.read_text(encoding="latin-1")
    relay.distrust("other", str(bundle))
    assert bundle.read_text(encoding="latin-1") == before + "added meanwhile\n"
    assert bundle.stat().st_mode & 0o777 == 0o640
    relay.distrust("bad", str(tmp_path / "none"))
    with pytest.raises(LookupError, match="there is no file"):
        relay._trust("bad", str(tmp_path / "none"), "AUTHORITY\n")
    assert list(Path(tmp_path).iterdir()) == [bundle]


def test_the_ways_that_clients_took_it_are_bounded():
    ledger = Ledger(Orders("stall"))
    for number in range(KEYS_KEPT + 5):
        ledger.outcome(f"way {number}")
    assert len(ledger.counts.outcomes) == KEYS_KEPT + 1
    assert ledger.counts.outcomes[OTHERS] == 5
    told = ledger.answer({"change": {"do": "stall", "delay": 2.0}})
    assert told["orders"]["delay"] == 2.0
    assert json.loads(json.dumps(told)) == {**told, "orders": json.loads(json.dumps(told["orders"]))}


def test_a_fault_that_is_not_there_says_so(capsys):
    assert relay.main(["show", "no-such-fault"]) == 0
    assert '"running": false' in capsys.readouterr().out
    assert relay.main(["change", "no-such-fault", "{}"]) == 1
