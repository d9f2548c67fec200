"""The guest's DNS proxy without a guest: messages, judgement, and real queries over the loopback of this machine."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.guest.tools.dns import proxy as dnsproxy
from stormcell.guest.tools.dns import tool as dns
from stormcell.guest.tools.dns import wire
from stormcell.guest.tools.dns.judge import NAMES_KEPT, OTHERS, Judge, Orders
from stormcell.guest.tools.dns.proxy import Proxy
from stormcell.guest.tools.net import conntrack


def test_a_question_is_read_whatever_its_case():
    asked = wire.question(wire.query("DB.Example.org", 28))
    assert asked is not None
    assert (asked.name, asked.type) == ("db.example.org", "AAAA")
    assert wire.response(asked, 3)[12:] == asked.raw, "the answer repeats it as it was asked"


@pytest.mark.parametrize("message", [b"", b"\0" * 11, b"\0\0\x81\x80\0\1" + b"\0" * 20, b"\0\0\x08\0\0\1" + b"\0" * 20,
                                     b"\0" * 12, wire.query("a.test", 1)[:-3],
                                     struct.pack(">6H", 1, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"],
                         ids=range(7))  # fmt: skip
def test_what_is_no_plain_query_is_none(message):
    assert wire.question(message) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_judged_without_a_crash(data):
    wire.question(data)
    wire.answered(data)
    conntrack.parse(data)
    Judge(Orders("fail", ("*",))).judge(data, 1)


def test_addresses_of_the_other_family_are_left_out():
    for kind, expected in ((1, ["192.0.2.1"]), (28, ["2001:db8::1"]), (16, [])):
        asked = wire.question(wire.query("a.test", kind))
        assert asked is not None
        assert wire.answered(wire.response(asked, 0, ["192.0.2.1", "2001:db8::1"], 9)) == (0, expected)


@pytest.mark.parametrize(
    ("name", "patterns", "meant"),
    [
        ("a.test", ("a.test",), True),
        ("b.a.test", ("a.test",), False),
        ("a.test", ("*.a.test",), False),
        ("b.a.test", ("*.a.test",), True),
        ("c.b.a.test", ("*.a.test",), True),
        ("xa.test", ("*.a.test",), False),
        ("anything", ("*",), True),
        ("b.test", ("a.test", "b.test"), True),
    ],
)
def test_patterns(name, patterns, meant):
    assert wire.matches(name, patterns) is meant


def test_share_is_drawn_for_each_query_and_counts_agree():
    for share, low, high in ((1.0, 400, 400), (0.5, 130, 270)):
        judge = Judge(Orders("fail", ("*",), share=share))
        replies = [judge.judge(wire.query("a.test", 1), 1).reply for _ in range(400)]
        hits = sum(reply is not None for reply in replies)
        assert low <= hits <= high
        assert judge.counts.answered == {"a.test A": hits}
        assert judge.counts.passed == 400 - hits


def test_a_wrong_address_is_for_address_queries_alone():
    judge = Judge(Orders("wrong", ("*",), addresses=("192.0.2.1",)))
    assert judge.judge(wire.query("a.test", 15), 1).reply is None
    assert wire.answered(judge.judge(wire.query("a.test", 28), 1).reply or b"") == (0, [])
    assert wire.answered(judge.judge(wire.query("a.test", 1), 1).reply or b"") == (0, ["192.0.2.1"])


def test_names_kept_are_bounded():
    judge = Judge(Orders("fail", ("*",)))
    for number in range(NAMES_KEPT + 9):
        judge.judge(wire.query(f"n{number}.test", 1), 1)
    assert len(judge.counts.answered) == NAMES_KEPT + 1
    assert judge.counts.answered[OTHERS] == 9


def test_our_own_probe_meets_the_fault_and_does_not_count():
    judge = Judge(Orders("fail", ("*",), share=0.0001))
    judge.answer({"ours": 77})
    assert judge.judge(wire.query("a.test", 1), 77).reply is not None
    assert (judge.counts.answered, judge.counts.passed, judge.counts.probes) == ({}, 0, 1)
    told = judge.answer({"change": {"do": "slow", "names": ["b.test"], "delay": 2.0}})
    assert told["orders"]["delay"] == 2.0
    assert judge.judge(wire.query("b.test", 1), 77).hold == 2.0


def test_an_entry_of_the_connection_table_is_read_back():
    there = (17, ("10.0.2.15", 40000), ("10.0.2.3", 53))
    back = (17, ("127.0.0.1", 61001), ("10.0.2.15", 40000))
    six = (17, ("fd00::1", 1), ("fd00::2", 2))
    data = b"".join(
        conntrack._attribute(kind, conntrack._tuple(*entry), nested=True) for kind, entry in ((1, there), (2, back))
    )
    assert conntrack.parse(data) == {1: there, 2: back}
    assert conntrack.parse(conntrack._attribute(2, conntrack._tuple(*six), nested=True)) == {2: six}
    assert conntrack.parse(data[:-3]) != {}


# -- a real server, the proxy, real queries


def server(reply: Callable[[bytes], bytes | None]) -> tuple[int, Callable[[], None]]:
    """Its port, and what ends it."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    port = udp.getsockname()[1]
    tcp = socket.create_server(("127.0.0.1", port))

    def datagrams() -> None:
        while True:
            try:
                data, sender = udp.recvfrom(4096)
            except OSError:
                return
            if not data:
                return
            if (answer := reply(data)) is not None:
                udp.sendto(answer, sender)

    def streams() -> None:
        while True:
            try:
                stream, _ = tcp.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(stream,), daemon=True).start()

    def serve(stream: socket.socket) -> None:
        with stream:
            while (message := dnsproxy._message(stream)) is not None:
                if (answer := reply(message)) is not None:
                    stream.sendall(struct.pack(">H", len(answer)) + answer)

    serving = [threading.Thread(target=body, daemon=True) for body in (datagrams, streams)]
    for thread in serving:
        thread.start()

    def end() -> None:
        """What still waited there would take what comes for the next one that has its descriptor."""
        for one in (udp, tcp):
            with contextlib.suppress(OSError):  # a socket for datagrams is told, and has no connection
                one.shutdown(socket.SHUT_RDWR)
        for thread in serving:
            thread.join(30)
        for one in (udp, tcp):
            one.close()

    return port, end


def honest(message: bytes) -> bytes | None:
    asked = wire.question(message)
    return None if asked is None or asked.name == "silent.test" else wire.response(asked, 0, ["198.51.100.7"], 60)


@pytest.fixture
def proxied(monkeypatch) -> Iterator[Callable[..., tuple[Judge, tuple[str, int]]]]:
    port, end = server(honest)
    monkeypatch.setattr(dnsproxy, "HERE", ((socket.AF_INET, "127.0.0.1"),))
    monkeypatch.setattr(dnsproxy, "original_of", lambda connection: ("127.0.0.1", port))

    def start(orders: Orders) -> tuple[Judge, tuple[str, int]]:
        judge = Judge(orders)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            own = free.getsockname()[1]
        proxy = Proxy(judge, own, 0, lambda here, client: ("127.0.0.1", port))
        threading.Thread(target=proxy.run, daemon=True).start()
        return judge, ("127.0.0.1", own)

    yield start
    end()


def ask(address: tuple[str, int], name: str, over: str = "udp", timeout: float = 30.0) -> tuple[int, list[str]] | None:
    message = wire.query(name, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if over == "tcp" else socket.SOCK_DGRAM) as client:
        client.settimeout(timeout)
        client.connect(address)
        client.sendall(struct.pack(">H", len(message)) + message if over == "tcp" else message)
        try:
            return wire.answered(dnsproxy._message(client) or b"" if over == "tcp" else client.recv(4096))
        except TimeoutError:
            return None


@pytest.mark.parametrize("over", ["udp", "tcp"])
def test_matching_names_fail_and_the_others_are_answered_by_the_server(proxied, over):
    judge, address = proxied(Orders("fail", ("*.bad.test",), rcode="REFUSED"))
    assert ask(address, "x.bad.test", over) == (5, [])
    assert ask(address, "good.test", over) == (0, ["198.51.100.7"])
    assert judge.counts.answered == {"x.bad.test A": 1}
    assert (judge.counts.passed, judge.counts.passed_answered) == (1, 1)


@pytest.mark.parametrize("over", ["udp", "tcp"])
def test_late_answers_are_late_by_what_was_asked_for(proxied, over):
    judge, address = proxied(Orders("slow", ("late.test",), delay=0.3))
    asked = 0
    while not asked or (judge.counts.held_least >= 1.5 and asked < 5):  # a busy machine only adds
        assert ask(address, "late.test", over) == (0, ["198.51.100.7"])
        asked += 1
    assert ask(address, "good.test", over) == (0, ["198.51.100.7"])
    assert judge.counts.answered == {"late.test A": asked}
    assert 0.3 <= judge.counts.held_least < 1.5


def test_a_server_that_is_silent_is_not_the_proxys_answer(proxied, monkeypatch):
    monkeypatch.setattr(dnsproxy, "WAIT_S", 0.3)
    judge, address = proxied(Orders("fail", ("*.bad.test",)))
    assert ask(address, "silent.test", timeout=0.8) is None
    deadline = time.monotonic() + 60
    while not judge.counts.passed_unanswered and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (judge.counts.passed, judge.counts.passed_unanswered, judge.counts.dropped) == (1, 1, 0)


def test_a_burst_is_answered_whole(proxied):
    judge, address = proxied(Orders("wrong", ("a.test",), addresses=("192.0.2.1",)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect(address)
        for name in ("a.test", "b.test") * 40:
            client.send(wire.query(name, 1))
        said = [wire.answered(client.recv(4096)) for _ in range(80)]
    assert said.count((0, ["192.0.2.1"])) == said.count((0, ["198.51.100.7"])) == 40
    assert judge.counts.passed_answered == 40


# -- the tool


def test_hosts_and_servers_are_read(tmp_path, monkeypatch):
    hosts, resolv = tmp_path / "hosts", tmp_path / "resolv.conf"
    hosts.write_text("127.0.0.1 localhost\n10.1.1.1 DB.test db2.test # c.test\n\n")
    resolv.write_text("search test\nnameserver 10.0.2.3\nnameserver fe80::3%eth0\nnameserver fec0::3\n")
    monkeypatch.setattr(dns, "HOSTS", str(hosts))
    monkeypatch.setattr(dns, "RESOLV_CONF", str(resolv))
    assert dns.in_hosts(["db.test", "c.test"]) == ["db.test"]
    assert dns.in_hosts(["*.test"]) == ["db.test", "db2.test"]
    assert dns.servers() == ["10.0.2.3", "fec0::3"]


def test_a_fault_that_is_not_there_says_so(capsys):
    assert dns.main(["show", "no-such-fault"]) == 0
    assert '"running": false' in capsys.readouterr().out
    assert dns.main(["change", "no-such-fault", "{}"]) == 1
    assert "does not run" in capsys.readouterr().err


@pytest.mark.parametrize(("daemon", "argv"), dns.CACHES.items())
def test_caching_daemons_are_emptied_each_in_its_way(daemon, argv, monkeypatch, tmp_path):
    signalled: list[int] = []
    program = tmp_path / (argv[0] if argv else "none")
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(dns, "daemons", lambda: {daemon: [4242]})
    monkeypatch.setattr(os, "kill", lambda pid, number: signalled.append(pid))
    assert dns.flush() == {daemon: "flushed"}
    assert signalled == ([] if argv else [4242])
    if argv:
        program.write_text("#!/bin/sh\nexit 3\n")
        assert dns.flush() == {daemon: f"{argv[0]} ended with 3"}
        program.unlink()
        monkeypatch.setenv("PATH", str(tmp_path))
        assert dns.flush() == {daemon: f"there is no {argv[0]}"}
