"""The network faults act on real packets, on the chosen ones alone, and leave nothing.

lo stands for a peer behind a slow or broken network; 10.0.2.2 and fec0::2 are the gateway that answers on eth0.
"""

import re

import pytest

from tests.guest.faults.network_said import TOOL, connect, how, lost, ping, rtt

SERVER = f"{TOOL} serve 9000"
PORT = {"device": "lo", "remote_port": 9000}


# -- delay --------------------------------------------------------------------------------------------------------


def test_delay_towards_one_peer_leaves_the_others_alone(bench):
    under = [connect(), connect("::1"), ping("127.0.0.1"), connect(port=9001)]
    trial = bench.attempt(
        {"kind": "net.delay", **PORT, "delay": "400ms"}, loads=[SERVER, f"{TOOL} serve 9001"], under=under
    )
    trial.proven()
    v4, v6, other, other_port = trial.said
    assert how(v4)[0] == how(v6)[0] == how(other_port)[0] == "OK"
    assert how(v4)[1] >= 395
    assert how(v6)[1] >= 395
    assert rtt(other) < 200
    assert how(other_port)[1] < 395


def test_delay_by_address_in_both_families_on_eth0(bench):
    spec = {"kind": "net.delay", "address": ["10.0.2.2", "fec0::2"], "delay": "150ms", "direction": "both"}
    trial = bench.attempt(spec, under=[ping("10.0.2.2"), ping("fec0::2"), ping("127.0.0.1")])
    trial.proven()
    v4, v6, lo = map(rtt, trial.said)
    assert v4 >= 295
    assert v6 >= 295
    assert lo < 150
    assert len([note for note in trial.receipt.notes if "on eth0: netem" in note]) == 2


def test_delay_on_the_way_in_only_of_one_peer(bench):
    spec = {"kind": "net.delay", "address": "10.0.2.2", "delay": "150ms", "direction": "in"}
    trial = bench.attempt(spec, under=[ping("10.0.2.2"), ping("fec0::2")])
    trial.proven()
    v4, v6 = map(rtt, trial.said)
    assert 145 <= v4 < 290
    assert v6 < 145


def test_delay_of_everything_on_lo_counts_twice_and_says_so(bench):
    spec = {"kind": "net.delay", "device": "lo", "delay": "100ms", "jitter": "5ms", "distribution": "normal"}
    trial = bench.attempt(spec, under=[ping("127.0.0.1"), ping("::1")])
    trial.proven()
    assert all(rtt(said) >= 160 for said in trial.said)
    assert any("twice" in said for said in trial.fault.cannot_know())


def test_a_delay_does_not_lose_packets_under_a_burst(bench):
    trial = bench.attempt(
        {"kind": "net.delay", **PORT, "delay": "800ms"}, loads=[SERVER], under=[f"{TOOL} burst 127.0.0.1 9000 3000 20"]
    )
    trial.proven()
    assert trial.said == ["back 3000\n"]
    assert trial.acted >= 3000
    assert not any("not asked for" in note for note in trial.receipt.notes)


def test_what_waits_at_the_undo_still_arrives(bench):
    """Removing the queue at once would lose what is in it, after the fault is over."""
    late = f"{TOOL} late 127.0.0.1 9000 /tmp/heard > /dev/null 2>&1"
    trial = bench.attempt(
        {"kind": "net.delay", **PORT, "delay": "1900ms"},
        loads=[SERVER],
        under=[f"{late} & while ! [ -e /tmp/heard.sent ]; do sleep 0.02; done"],
    )
    assert trial.receipt.clean
    assert bench.run("cat /tmp/heard") == "late"


# -- loss and rate ------------------------------------------------------------------------------------------------


def test_loss_is_the_share_that_was_asked_for(bench):
    trial = bench.attempt(
        {"kind": "net.loss", "device": "lo", "protocol": "icmp", "loss": "30%"},
        under=["ping -c 200 -i 0.01 -W 1 -q 127.0.0.1", connect()],
        loads=[SERVER],
    )
    trial.proven()
    assert 30 < lost(trial.said[0]) < 70  # both ways lose: 1 - 0.7^2 = 51 %
    assert how(trial.said[1])[0] == "OK"


def test_total_loss_on_the_way_in(bench):
    trial = bench.attempt(
        {"kind": "net.loss", "device": "eth0", "direction": "in", "address": "10.0.2.2", "loss": "100%"},
        under=[ping("10.0.2.2", 3), ping("fec0::2", 3)],
    )
    trial.proven()
    assert [lost(said) for said in trial.said] == [100.0, 0.0]


def test_rate_slows_a_transfer_to_the_rate(bench):
    transfer = f"{TOOL} transfer 127.0.0.1 9000 250000"
    trial = bench.attempt({"kind": "net.rate", **PORT, "rate": "1mbit"}, loads=[SERVER], under=[transfer])
    trial.proven()
    word, milliseconds = how(trial.said[0])
    assert word == "OK"
    assert milliseconds >= (250_000 - 2 * 69_632) * 8 / 1000  # the bucket passes at once
    free = bench.attempt({"kind": "net.rate", "device": "lo", "remote_port": 1, "rate": "1mbit"}, loads=[SERVER],
                         under=[transfer])  # fmt: skip
    assert how(free.said[0])[1] < milliseconds
    assert free.receipt.in_force
    assert free.acted == 0


# -- drop, reject, dns --------------------------------------------------------------------------------------------


def test_drop_is_silent_also_for_tcp_that_tries_again(bench):
    """A drop that tells the sender makes connect() give up after 4 s (see BlackHole)."""
    under = [
        connect(timeout=7),
        connect("::1", timeout=1),
        ping("127.0.0.1", 2),
        f"{TOOL} datagrams 127.0.0.1 9000 2 1",
    ]
    trial = bench.attempt({"kind": "net.drop", **PORT}, loads=[SERVER], under=under)
    trial.proven()
    assert how(trial.said[0])[0] == "TIMEOUT"
    assert how(trial.said[0])[1] >= 6900
    assert how(trial.said[1])[0] == "TIMEOUT"
    assert lost(trial.said[2]) == 0
    assert trial.said[3] == "back 0 failed 0\n"


def test_drop_on_the_way_in_by_family(bench):
    trial = bench.attempt(
        {"kind": "net.drop", "direction": "in", "address": "fec0::2"}, under=[ping("10.0.2.2", 2), ping("fec0::2", 2)]
    )
    trial.proven()
    assert [lost(said) for said in trial.said] == [0.0, 100.0]


def test_drop_of_everything_on_a_device(bench):
    trial = bench.attempt(
        {"kind": "net.drop", "device": "eth0", "direction": "both"},
        under=[ping("10.0.2.2", 2), ping("fec0::2", 2), ping("127.0.0.1", 2)],
    )
    trial.proven()
    assert [lost(said) for said in trial.said] == [100.0, 100.0, 0.0]


REFUSED = {
    "tcp-reset": "ECONNREFUSED",
    "port-unreachable": "ECONNREFUSED",
    "host-unreachable": "EHOSTUNREACH",
    "admin-prohibited": "EHOSTUNREACH",
    "no-route": "ENETUNREACH",
}


@pytest.mark.parametrize("answer", REFUSED)
def test_reject_tells_the_sender_at_once(bench, answer):
    trial = bench.attempt(
        {"kind": "net.reject", **PORT, "with": answer},
        loads=[SERVER],
        under=[connect(), connect("::1"), connect(port=22)],
    )
    trial.proven()
    v4, v6 = how(trial.said[0]), how(trial.said[1])
    assert v4[0] == REFUSED[answer]
    assert v4[1] < 1000
    assert v6[0] == ("EACCES" if answer == "admin-prohibited" else REFUSED[answer])


def test_reject_resets_a_connection_that_is_open(bench):
    talker = f"{TOOL} keep_open 127.0.0.1 9000 60 > /tmp/talk 2>&1"
    trial = bench.attempt(
        {"kind": "net.reject", **PORT},
        loads=[SERVER, talker],
        settle=6.0,
        under=["for i in $(seq 50); do [ -s /tmp/talk ] && break; sleep 0.2; done; cat /tmp/talk"],
    )
    trial.proven()
    assert how(trial.said[0])[0] == "ECONNRESET"


def test_reject_of_everything_on_lo_still_reaches_the_sender(bench):
    """The refusal comes back through the same device and must not be refused itself."""
    for spec, word in (({"with": "host-unreachable"}, "EHOSTUNREACH"), ({"direction": "in"}, "ECONNREFUSED")):
        trial = bench.attempt({"kind": "net.reject", "device": "lo", **spec}, loads=[SERVER], under=[connect()])
        trial.proven()
        assert how(trial.said[0])[0] == word


def test_names_do_not_resolve_and_no_way_to_ask_is_left(bench):
    bench.run("printf 'nameserver 10.0.2.3\\noptions timeout:1 attempts:1\\n' > /etc/resolv.conf")
    ways = [connect(host, port, 1) for host in ("10.0.2.2", "127.0.0.1", "::1") for port in (53, 853)]
    trial = bench.attempt(
        {"kind": "dns.drop"}, loads=[SERVER], under=["getent ahosts a.test; echo exit $?", *ways, connect()]
    )
    trial.proven()
    name, *asked, other = trial.said
    assert name == "exit 2\n"
    assert [how(said)[0] for said in asked] == ["TIMEOUT"] * 6
    assert how(other)[0] == "OK"
    counted = [note for note in trial.receipt.notes if re.search(r": [1-9]\d* packets", note)]
    assert any("eth0 ip udp dport 53" in note for note in counted)
    assert any("lo ip6 tcp dport 853" in note for note in counted)


# -- nothing left, nothing taken ----------------------------------------------------------------------------------


def test_after_all_that_the_guest_is_as_it_was(bench):
    assert "5c0" not in bench.run("tc qdisc show; tc filter show dev lo; tc filter show dev eth0")
    assert bench.run("nft list ruleset") == ""
    assert "sc1-" not in bench.run("ip -br link")
    assert lost(bench.run(ping("10.0.2.2", 3))) == 0
    assert rtt(bench.run(ping("127.0.0.1", 3))) < 100
