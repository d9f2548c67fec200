"""Faults of the relay on real servers with and without TLS; the clients verify certificates with OpenSSL."""

import re

import pytest

from tests.guest.faults.fault_trial import until

OWN = "python3 /root/relay_tool.py"
CLOSED = "ConnectionResetError"


@pytest.fixture(scope="module")
def web(bench):
    """Port 8080 speaks HTTP, 8443 HTTPS as svc.test; 8081 is a bystander."""
    bench.run(f"{OWN} make /root/tls svc.test; cp /root/tls/ca.pem /root/bundle.pem; "
              f"setsid {OWN} serve 8080 8443 /root/tls/svc.test.pem > /dev/null 2>&1 & "
              f"setsid {OWN} serve 8081 8444 /root/tls/svc.test.pem > /dev/null 2>&1 &")  # fmt: skip
    bench.run(f"for p in 8080 8443 8081; do {until('ss -Hltn sport = $p | grep -q .')}; done")
    return bench


def http(size, host="127.0.0.1", port=8080, times=1):
    return f"{OWN} get {host} {port} {size} {times}"


def https(ca="/root/bundle.pem", name="svc.test", host="::1", timeout=10):
    return f"{OWN} get {host} 8443 5 1 {ca} {name} {timeout}"


def rows(said):
    """(what, bytes, ms to the first byte, ms to the last) of every line."""
    found = [line.split() for line in said.splitlines()]
    return [(what, int(size), int(first), int(last)) for what, size, first, last in found]


def row(said):
    return rows(said)[0]


def test_the_first_byte_of_every_answer_is_late_and_the_rest_is_not(web):
    under = [http(100_000, times=3), http(10, "::1"), http(10, port=8081, times=3)]
    trial = web.attempt(
        {"kind": "http.first-byte", "remote_port": 8080, "delay": "700ms", "jitter": "100ms"}, under=under
    )
    trial.proven()
    many, six, bystander = map(rows, trial.said)
    assert [(what, size) for what, size, *_ in many] == [("200", 100_000)] * 3
    assert all(first >= 600 for _, _, first, _ in (*many, *six))
    assert min(last - first for _, _, first, last in many) < 600
    assert min(last for *_, last in bystander) < 600
    assert trial.acted == 4
    held = re.fullmatch(r"held between (0\.\d+) and (0\.\d+) s", trial.receipt.notes[1])
    assert held
    assert 0.6 <= float(held[1]) <= float(held[2]) <= 0.8


def test_by_address_and_by_share(web):
    spec = {"kind": "http.status", "remote_port": 8080, "status": 418}
    trial = web.attempt(
        {**spec, "address": ["127.0.0.2", "::1"]}, under=[http(9, "127.0.0.2"), http(9, "::1"), http(9)]
    )
    trial.proven()
    assert [row(said)[0] for said in trial.said] == ["418", "418", "200"]
    assert trial.acted == 2
    some = web.attempt({**spec, "share": "50%"}, under=[f"{OWN} many 127.0.0.1 8080 9 40"])
    some.proven()
    codes = [what for what, *_ in rows(some.said[0])]
    assert codes.count("418") == some.acted
    assert codes.count("200") == 40 - some.acted > 0


def test_a_local_server_meets_it_from_here_and_the_same_port_elsewhere_does_not(web):
    trial = web.attempt(
        {"kind": "http.status", "local_port": 8080}, under=[http(9), http(9, "10.0.2.15"), http(9, "::1")]
    )
    trial.proven()
    assert [row(said)[0] for said in trial.said] == ["503"] * 3
    assert "3 connections came; 0 connections passed untouched" in trial.receipt.notes


def test_a_client_from_outside_meets_it_too(web):
    """A network namespace behind a veth pair stands for another machine."""
    web.run("ip netns add peer; ip link add v0 type veth peer name v1 netns peer; ip addr add 10.9.0.1/24 dev v0; "
            "ip link set v0 up; ip -n peer addr add 10.9.0.2/24 dev v1; ip -n peer link set v1 up")  # fmt: skip
    outside = f"ip netns exec peer {http(9, '10.9.0.1')}"
    trial = web.attempt({"kind": "http.status", "local_port": 8080}, under=[outside, outside.replace("8080", "8081")])
    web.run("ip netns del peer")
    trial.proven()
    assert [row(said)[0] for said in trial.said] == ["503", "200"]
    assert "in ip any: 1 flows" in trial.receipt.notes
    remote = web.attempt({"kind": "http.status", "remote_port": 8080}, under=["true"])
    assert remote.acted == 0


def test_an_answer_trickles(web):
    trial = web.attempt(
        {"kind": "http.slow-body", "local_port": 8080, "rate": "8KiB"},
        under=[http(8000, times=2), http(8000, port=8081, times=3)],
    )
    trial.proven()
    slow, bystander = map(rows, trial.said)
    assert [(what, size) for what, size, *_ in slow] == [("200", 8000)] * 2
    assert 975 <= min(last for *_, last in slow) < 1900
    assert min(last for *_, last in bystander) < 975


def test_an_answer_breaks_off(web):
    trial = web.attempt(
        {"kind": "http.abort", "local_port": 8080, "after": "500B"}, under=[http(2000), http(2000, "::1")]
    )
    trial.proven()
    assert [row(said)[:2] for said in trial.said] == [(CLOSED, 500)] * 2
    at_once = web.attempt({"kind": "http.abort", "remote_port": 8080}, under=[http(2000), http(20, port=8081)])
    at_once.proven()
    assert [row(said)[:2] for said in at_once.said] == [(CLOSED, 0), ("200", 20)]


def test_a_handshake_stalls_for_ever_or_for_a_while(web):
    under = [https(timeout=2), https("none", "other.test")]
    never = web.attempt({"kind": "tls.stall", "remote_port": 8443, "names": "*.test"}, under=[https(timeout=2)])
    never.proven()
    assert row(never.said[0])[0] == "TimeoutError"
    ended = r"the client closed the connection after \d+(\.\d)? s: 1 times"
    assert any(re.fullmatch(ended, note) for note in never.receipt.notes)
    named = web.attempt({"kind": "tls.stall", "local_port": 8443, "names": "svc.test", "delay": "900ms"}, under=[
        f"date +%s%N; {https()}; date +%s%N", under[1]])  # fmt: skip
    named.proven()
    began, said, ended = named.said[0].splitlines()
    assert row(said)[0] == "200"
    assert int(ended) - int(began) >= 900_000_000
    assert row(named.said[1])[0] == "200"
    assert named.acted == 1
    assert "2 connections came; 1 connections passed untouched" in named.receipt.notes


ALERTS = {
    "expired": ("certificate-has-expired", "certificate_expired (45)"),
    "not-yet-valid": ("certificate-is-not-yet-valid", "bad_certificate (42)"),
    "wrong-name": ("Hostname-mismatch", "bad_certificate (42)"),
    "untrusted": ("self-signed-certificate-in-certificate-chain", "unknown_ca (48)"),
    "self-signed": ("self-signed-certificate", "unknown_ca (48)"),
}


@pytest.mark.parametrize("problem", ALERTS)
def test_the_client_refuses_the_certificate_for_that_reason_alone(web, problem):
    """Its own error, on its own side, and the alert that it sent."""
    how = {"trust": "/root/bundle.pem"} if problem in ("expired", "not-yet-valid", "wrong-name") else {}
    under = [https(), *([https("none")] if problem == "expired" else [])]
    trial = web.attempt({"kind": "tls.certificate", "remote_port": 8443, "problem": problem, **how}, under=under)
    trial.proven()
    said, alert = ALERTS[problem]
    assert row(trial.said[0])[0].startswith(f"certificate:{said}")
    assert f"alert {alert} from the client: 1 times" in trial.receipt.notes
    if problem == "expired":
        assert row(trial.said[1])[:2] == ("200", 5), "a client that does not look is served"
        assert trial.receipt.notes[0] == "a client does not verify certificates: it accepted one that is expired"
    assert web.run("cmp /root/tls/ca.pem /root/bundle.pem && echo same") == "same\n"
    assert row(web.run(https()))[0] == "200", "afterwards the real certificate is there, and good"


def test_an_authority_of_the_users_signs(web):
    trial = web.attempt({"kind": "tls.certificate", "local_port": 8443, "problem": "expired", "by": "10s",
                         "names": "svc.test", "ca_certificate": "/root/tls/ca.pem", "ca_key": "/root/tls/ca.key"},
                        under=[https("/root/tls/ca.pem")])  # fmt: skip
    trial.proven()
    assert row(trial.said[0])[0] == "certificate:certificate-has-expired"


def test_through_the_clock_the_real_certificate_expires_too(web):
    """clock.jump: the service's own certificate is good for a week."""
    for by, word in (("8d", "certificate-has-expired"), ("-2h", "certificate-is-not-yet-valid")):
        trial = web.attempt({"kind": "clock.jump", "by": by}, under=[https()])
        trial.proven()
        assert row(trial.said[0])[0] == f"certificate:{word}"


@pytest.mark.parametrize("spec", [
    {"kind": "http.first-byte", "remote_port": 8080, "delay": "1s"}, {"kind": "http.slow-body", "remote_port": 8080,
     "rate": "1KiB"}, {"kind": "http.abort", "remote_port": 8080}, {"kind": "http.status", "remote_port": 8080},
    {"kind": "tls.stall", "remote_port": 8443, "names": "a.test"},
    {"kind": "tls.certificate", "remote_port": 8443, "problem": "untrusted", "names": "a.test"},
], ids=lambda spec: spec["kind"])  # fmt: skip
def test_in_force_but_nobody_met_it(web, spec):
    trial = web.attempt(spec, under=[http(9, port=8081), *([https()] if "names" in spec else [])])
    assert (trial.receipt.apply_ok, trial.receipt.in_force, trial.receipt.clean) == (True, True, True)
    assert trial.acted == 0
    assert {row(said)[0] for said in trial.said} == {"200"}


def test_what_cannot_be_done_is_refused_and_leaves_nothing(web):
    bad = {"kind": "tls.certificate", "remote_port": 8443, "problem": "expired"}
    trial = web.attempt({**bad, "trust": "/root/none.pem"})
    assert "there is no file /root/none.pem" in trial.stop
    trial = web.attempt({**bad, "ca_certificate": "/root/tls/ca.pem", "ca_key": "/root/tls/ca.pem"})
    assert "no RSA or P-256 key without a passphrase" in trial.stop


def test_nothing_is_left(web):
    assert web.run("nft list ruleset; ls -A /run/stormcell/marks") == ""
    assert web.run("ls -d /sys/fs/cgroup/stormcell/faults 2>/dev/null; ss -Hlntu 'sport >= 61000'") == ""
