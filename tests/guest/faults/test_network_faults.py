"""The network faults act on real packets, on the chosen ones alone, and leave nothing.

lo stands for a peer behind a slow or broken network; 10.0.2.2 and fec0::2 are the gateway that answers on eth0.
"""

import re

import pytest

from tests.guest.faults.fault_trial import until
from tests.guest.faults.network_said import TOOL, connect, how, lost, ping, rtt

PORT = {"device": "lo", "remote_port": 9000}


@pytest.fixture(scope="module")
def guest(bench):
    """9000 and 9001 echo, for all tests of the module."""
    for port in (9000, 9001):
        bench.run(f"setsid {TOOL} serve {port} > /dev/null 2>&1 &")
        bench.run(until(f"{connect('::1', port)} | grep -q OK"))
    return bench


# -- delay --------------------------------------------------------------------------------------------------------


def test_delay_towards_one_peer_leaves_the_others_alone(guest):
    under = [connect(), connect("::1"), ping("127.0.0.1"), connect(port=9001, times=3)]
    trial = guest.attempt({"kind": "net.delay", **PORT, "delay": "400ms"}, under=under)
    trial.proven()
    v4, v6, other, other_port = trial.said
    assert how(v4)[0] == how(v6)[0] == how(other_port)[0] == "OK"
    assert how(v4)[1] >= 395
    assert how(v6)[1] >= 395
    assert rtt(other) < 200
    assert how(other_port)[1] < 395


def test_delay_by_address_in_both_families_on_eth0(guest):
    spec = {"kind": "net.delay", "address": ["10.0.2.2", "fec0::2"], "delay": "150ms", "direction": "both"}
    trial = guest.attempt(spec, under=[ping("10.0.2.2"), ping("fec0::2"), ping("127.0.0.1")])
    trial.proven()
    v4, v6, lo = map(rtt, trial.said)
    assert v4 >= 295
    assert v6 >= 295
    assert lo < 150
    assert len([note for note in trial.receipt.notes if "on eth0: netem" in note]) == 2


def test_delay_on_the_way_in_only_of_one_peer(guest):
    spec = {"kind": "net.delay", "address": "10.0.2.2", "delay": "150ms", "direction": "in"}
    trial = guest.attempt(spec, under=[ping("10.0.2.2"), ping("fec0::2")])
    trial.proven()
    v4, v6 = map(rtt, trial.said)
    assert 145 <= v4 < 290
    assert v6 < 145


def test_delay_of_everything_on_lo_counts_twice_and_says_so(guest):
    spec = {"kind": "net.delay", "device": "lo", "delay": "100ms", "jitter": "5ms", "distribution": "normal"}
    trial = guest.attempt(spec, under=[ping("127.0.0.1"), ping("::1")])
    trial.proven()
    assert all(rtt(said) >= 160 for said in trial.said)
    assert any("twice" in said for said in trial.fault.cannot_know())


def test_a_delay_does_not_lose_packets_under_a_burst(guest):
    trial = guest.attempt(
        {"kind": "net.delay", **PORT, "delay": "800ms"}, under=[f"{TOOL} burst 127.0.0.1 9000 3000 20"]
    )
    trial.proven()
    assert trial.said == ["back 3000\n"]
    assert trial.acted >= 3000
    assert not any("not asked for" in note for note in trial.receipt.notes)


def test_what_waits_at_the_undo_still_arrives(guest):
    """Removing the queue at once would lose what is in it, after the fault is over."""
    late = f"{TOOL} late 127.0.0.1 9000 /tmp/heard > /dev/null 2>&1"
    trial = guest.attempt(
        {"kind": "net.delay", **PORT, "delay": "1900ms"},
        under=[f"{late} & {until('[ -e /tmp/heard.sent ]')}"],
    )
    assert trial.receipt.clean
    assert guest.run(f"{until('[ -s /tmp/heard ]')}; cat /tmp/heard") == "late"


# -- loss and rate ------------------------------------------------------------------------------------------------


def test_loss_is_the_share_that_was_asked_for(guest):
    trial = guest.attempt(
        {"kind": "net.loss", "device": "lo", "protocol": "icmp", "loss": "30%"},
        under=[ping("127.0.0.1", 200, every=0.01), connect()],
    )
    trial.proven()
    assert 30 < lost(trial.said[0]) < 70  # both ways lose: 1 - 0.7^2 = 51 %
    assert how(trial.said[1])[0] == "OK"


def test_total_loss_on_the_way_in(guest):
    trial = guest.attempt(
        {"kind": "net.loss", "device": "eth0", "direction": "in", "address": "10.0.2.2", "loss": "100%"},
        under=[ping("10.0.2.2", 3, wait=1), ping("fec0::2", 3)],
    )
    trial.proven()
    assert [lost(said) == 100 for said in trial.said] == [True, False]


def test_rate_slows_a_transfer_to_the_rate(guest):
    transfer = "transfer 127.0.0.1 9000 250000"
    trial = guest.attempt({"kind": "net.rate", **PORT, "rate": "1mbit"}, under=[f"{TOOL} {transfer}"])
    trial.proven()
    word, milliseconds = how(trial.said[0])
    assert word == "OK"
    assert milliseconds >= (250_000 - 2 * 69_632) * 8 / 1000  # the bucket passes at once
    free = guest.attempt(
        {"kind": "net.rate", "device": "lo", "remote_port": 1, "rate": "1mbit"}, under=[f"{TOOL} quickest 3 {transfer}"]
    )
    word, quickest = how(free.said[0])
    assert word == "OK"
    assert quickest < milliseconds
    assert free.receipt.in_force
    assert free.acted == 0


# -- drop, reject, dns --------------------------------------------------------------------------------------------


def test_drop_is_silent_also_for_tcp_that_tries_again(guest):
    """A drop that tells the sender makes connect() give up after 4 s (see BlackHole)."""
    under = [
        connect(timeout=7),
        connect("::1", timeout=1),
        ping("127.0.0.1", 2),
        f"{TOOL} datagrams 127.0.0.1 9000 2 1",
    ]
    trial = guest.attempt({"kind": "net.drop", **PORT}, under=under)
    trial.proven()
    assert how(trial.said[0])[0] == "TIMEOUT"
    assert how(trial.said[0])[1] >= 6900
    assert how(trial.said[1])[0] == "TIMEOUT"
    assert lost(trial.said[2]) < 100
    assert trial.said[3] == "back 0 failed 0\n"


def test_drop_on_the_way_in_by_family(guest):
    trial = guest.attempt(
        {"kind": "net.drop", "direction": "in", "address": "fec0::2"},
        under=[ping("10.0.2.2"), ping("fec0::2", 2, wait=1)],
    )
    trial.proven()
    assert [lost(said) == 100 for said in trial.said] == [False, True]


def test_drop_of_everything_on_a_device(guest):
    trial = guest.attempt(
        {"kind": "net.drop", "device": "eth0", "direction": "both"},
        under=[ping("10.0.2.2", 2, wait=1), ping("fec0::2", 2, wait=1), ping("127.0.0.1")],
    )
    trial.proven()
    assert [lost(said) == 100 for said in trial.said] == [True, True, False]


REFUSED = {
    "tcp-reset": "ECONNREFUSED",
    "port-unreachable": "ECONNREFUSED",
    "host-unreachable": "EHOSTUNREACH",
    "admin-prohibited": "EHOSTUNREACH",
    "no-route": "ENETUNREACH",
}


@pytest.mark.parametrize("answer", REFUSED)
def test_reject_tells_the_sender_at_once(guest, answer):
    trial = guest.attempt({"kind": "net.reject", **PORT, "with": answer}, under=[connect(times=3), connect("::1")])
    trial.proven()
    v4, v6 = how(trial.said[0]), how(trial.said[1])
    assert v4[0] == REFUSED[answer]
    assert v4[1] < 1000
    assert v6[0] == ("EACCES" if answer == "admin-prohibited" else REFUSED[answer])


def test_reject_resets_a_connection_that_is_open(guest):
    trial = guest.attempt(
        {"kind": "net.reject", **PORT},
        loads=[f"{TOOL} keep_open 127.0.0.1 9000 60 > /tmp/talk 2>&1"],
        ready="ss -Htn state established dport = 9000 | grep -q .",
        under=[f"{until('[ -s /tmp/talk ]')}; cat /tmp/talk"],
    )
    trial.proven()
    assert how(trial.said[0])[0] == "ECONNRESET"


def test_reject_of_everything_on_lo_still_reaches_the_sender(guest):
    """The refusal comes back through the same device and must not be refused itself."""
    for spec, word in (({"with": "host-unreachable"}, "EHOSTUNREACH"), ({"direction": "in"}, "ECONNREFUSED")):
        trial = guest.attempt({"kind": "net.reject", "device": "lo", **spec}, under=[connect()])
        trial.proven()
        assert how(trial.said[0])[0] == word


def test_names_do_not_resolve_and_no_way_to_ask_is_left(guest):
    guest.run("printf 'nameserver 10.0.2.3\\noptions timeout:1 attempts:1\\n' > /etc/resolv.conf")
    ways = [connect(host, port, 1) for host in ("10.0.2.2", "127.0.0.1", "::1") for port in (53, 853)]
    trial = guest.attempt({"kind": "dns.drop"}, under=["getent ahosts a.test; echo exit $?", *ways, connect()])
    trial.proven()
    name, *asked, other = trial.said
    assert name == "exit 2\n"
    assert [how(said)[0] for said in asked] == ["TIMEOUT"] * 6
    assert how(other)[0] == "OK"
    counted = [note for note in trial.receipt.notes if re.search(r": [1-9]\d* packets", note)]
    assert any("eth0 ip udp dport 53" in note for note in counted)
    assert any("lo ip6 tcp dport 853" in note for note in counted)


# -- nothing left, nothing taken ----------------------------------------------------------------------------------


def test_after_all_that_the_guest_is_as_it_was(guest):
    assert "5c0" not in guest.run("tc qdisc show; tc filter show dev lo; tc filter show dev eth0")
    assert guest.run("nft list ruleset") == ""
    assert "sc1-" not in guest.run("ip -br link")
    assert lost(guest.run(ping("10.0.2.2"))) < 100
    assert rtt(guest.run(ping("127.0.0.1"))) < 100
