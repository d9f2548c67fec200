"""Ports, queues and tables that run out, on real connections."""

import pytest

from stormcell import faults
from tests.guest.faults.fault_trial import until
from tests.guest.faults.network_said import TOOL

OWN = "python3 /root/port_tool.py"
SYSCTLS = ("sysctl net.ipv4.ip_local_reserved_ports net.ipv4.tcp_tw_reuse net.ipv4.tcp_syncookies "
           "net.ipv4.tcp_max_syn_backlog; sysctl net.netfilter.nf_conntrack_max 2>/dev/null || true")  # fmt: skip


@pytest.fixture(scope="module")
def servers(bench):
    """9000 echoes; 9100 and 9101 listen with queues of 32 and 64, for both families and for one address of IPv4."""
    bench.run("modprobe -a nf_conntrack tcp_diag; echo 8080 > /proc/sys/net/ipv4/ip_local_reserved_ports; "
              f"({SYSCTLS}) > /tmp/sysctls; exec > /dev/null 2>&1; setsid python3 /root/tool.py serve 9000 & "
              f"setsid {OWN} sink 9100 32 & setsid {OWN} sink 9101 64 10.0.2.15 &")  # fmt: skip
    bench.run(f"for p in 9000 9100 9101; do {until('ss -Hltn sport = $p | grep -q .')}; done")
    return bench


def connects(host, port, count, timeout=10):
    return f"{OWN} connects {host} {port} {count} {timeout}"


def outcome(said):
    return " ".join(said.split()[:-1])


def test_no_local_port_is_left_for_anybody(servers):
    under = [connects("127.0.0.1", 9000, 5), connects("::1", 9000, 4), f"{OWN} datagrams 127.0.0.1 9000 3",
             f"{OWN} binds 0 2", f"{OWN} binds 40000 1", f"{OWN} datagrams ::1 9000 2 0"]  # fmt: skip
    trial = servers.attempt({"kind": "port.ephemeral"}, under=under)
    trial.proven()
    assert list(map(outcome, trial.said)) == ["EADDRNOTAVAIL=5", "EADDRNOTAVAIL=4", "EAGAIN=3", "EADDRINUSE=2", "OK=1",
                                              "EAGAIN=2"]  # fmt: skip
    assert trial.acted == 12
    assert outcome(servers.run(connects("127.0.0.1", 9000, 5))) == "OK=5"


def test_some_ports_are_left_for_each_peer(servers):
    under = [connects("127.0.0.1", 9000, 15), connects("127.0.0.1", 9100, 10)]
    trial = servers.attempt({"kind": "port.ephemeral", "leave": 10}, under=under)
    trial.proven()
    assert list(map(outcome, trial.said)) == ["EADDRNOTAVAIL=5 OK=10", "OK=10"]
    assert trial.acted == 5


PILES = [
    ("127.0.0.1", 9000, [("127.0.0.1", 9100), ("::1", 9000)]),
    ("::1", 9100, [("10.0.2.15", 9101), ("10.0.2.15", 9000)]),
]


@pytest.mark.parametrize(("host", "port", "others"), PILES)
def test_ports_in_time_wait_keep_from_one_server_alone(servers, host, port, others):
    """9100 does not close its end: ours is in FIN_WAIT2, which keeps the port as well."""
    under = [connects(host, port, 6), *(connects(at, number, 6) for at, number in others)]
    trial = servers.attempt({"kind": "port.time-wait", "remote_port": port, "address": host, "count": 32}, under=under)
    trial.proven()
    assert list(map(outcome, trial.said)) == ["EADDRNOTAVAIL=6", "OK=6", "OK=6"]
    assert trial.acted == 6
    waited = next(note for note in trial.receipt.notes if "sockets waited" in note)
    assert int(waited.split()[0]) >= 32
    assert outcome(servers.run(connects(host, port, 6))) == "OK=6"


def test_a_full_queue_drops_new_clients_of_both_families_and_no_other_port_has_it(servers):
    under = [connects("127.0.0.1", 9100, 2, 1), connects("::1", 9100, 1, 1), connects("127.0.0.1", 9000, 2),
             connects("10.0.2.15", 9101, 2)]  # fmt: skip
    trial = servers.attempt({"kind": "port.backlog", "local_port": 9100}, under=under)
    trial.proven()
    assert list(map(outcome, trial.said)) == ["TIMEOUT=2", "TIMEOUT=1", "OK=2", "OK=2"]
    dropped = next(int(note.split()[1]) for note in trial.receipt.notes if note.startswith("ListenDrops"))
    assert 3 <= trial.acted == dropped <= 12
    assert outcome(servers.run(connects("::1", 9100, 2))) == "OK=2"
    assert servers.run("ss -Htan state syn-recv") == ""


def test_a_server_on_one_address_and_connections_that_are_open(servers):
    trial = servers.attempt({"kind": "port.backlog", "local_port": 9101}, under=[connects("10.0.2.15", 9101, 1, 1)])
    trial.proven()
    assert outcome(trial.said[0]) == "TIMEOUT=1"
    assert "10.0.2.15: 65 half-open connections in a queue of 64" in trial.receipt.notes
    talker = f"{TOOL} keep_open 10.0.2.15 9000 30 /tmp/enough > /tmp/talk 2>&1"
    ended = f"touch /tmp/enough; {until('[ -s /tmp/talk ]')}; cat /tmp/talk"
    open_ = servers.attempt({"kind": "port.backlog", "local_port": 9000}, setup=["rm -f /tmp/enough /tmp/talk"],
                            loads=[talker], ready="ss -Htn state established dport = 9000 | grep -q .",
                            under=[connects("10.0.2.15", 9000, 1, 1), ended])  # fmt: skip
    open_.proven()
    assert outcome(open_.said[0]) == "TIMEOUT=1"
    assert outcome(open_.said[1]) == "OK", "it talked until now"


def test_a_full_table_of_connections_drops_what_is_new(servers):
    under = [connects("127.0.0.1", 9100, 5, 1), f"{OWN} datagrams 127.0.0.1 9000 3"]
    trial = servers.attempt({"kind": "port.conntrack", "max": 3}, under=under)
    trial.proven()
    assert outcome(trial.said[0]) == "OK=3 TIMEOUT=2"
    assert outcome(trial.said[1]) == "EPERM=3"
    assert trial.acted >= 5
    assert any("table full, dropping packet" in note for note in trial.receipt.notes)
    assert outcome(servers.run(connects("127.0.0.1", 9100, 5))) == "OK=5"


@pytest.mark.parametrize("spec", [
    {"kind": "port.ephemeral"}, {"kind": "port.time-wait", "remote_port": 9000, "count": 8},
    {"kind": "port.backlog", "local_port": 9100}, {"kind": "port.conntrack", "max": 500},
], ids=lambda spec: spec["kind"])  # fmt: skip
def test_in_force_but_nobody_needed_one(servers, spec):
    trial = servers.attempt(spec, under=["true", "sleep 0.7"])
    assert (trial.receipt.apply_ok, trial.receipt.in_force, trial.receipt.clean) == (True, True, True)
    assert trial.acted == 0


@pytest.mark.parametrize(("spec", "why"), [
    ({"kind": "port.backlog", "local_port": 9999}, "nobody listens on port 9999"),
    ({"kind": "port.time-wait", "remote_port": 9999}, "Connection refused"),
    ({"kind": "port.conntrack", "max": 100000}, "the table takes 4096 connections already"),
])  # fmt: skip
def test_what_cannot_be_done_says_why_and_leaves_nothing(servers, spec, why):
    trial = servers.attempt(spec)
    assert why in trial.stop
    assert servers.run("nft list ruleset; ls -A /run/stormcell/marks") == ""


def test_an_act_that_was_killed_half_way_is_undone_as_often_as_one_likes(servers):
    backlog = faults.parse({"kind": "port.backlog", "local_port": 9100}).named("half", 1).plan()
    servers.perform(backlog.apply)
    servers.run("echo 1 > /sys/fs/cgroup/stormcell/faults/half/cgroup.kill; stormcell-guest ports reserve half 0; "
                "stormcell-guest conntable limit half 7")  # fmt: skip
    for _ in range(2):
        servers.perform(backlog.undo, tcp_syncookies="1", tcp_max_syn_backlog="128")
        servers.run("stormcell-guest ports restore half 8080; stormcell-guest conntable restore half 4096")


def test_the_settings_are_as_they_were_and_nothing_is_left(servers):
    assert servers.run(SYSCTLS) == servers.run("cat /tmp/sysctls")
    assert servers.run("nft list ruleset; ls -A /run/stormcell/marks") == ""
    assert servers.run("ls -d /sys/fs/cgroup/stormcell/faults 2>/dev/null || true") == ""
    assert "hist" not in servers.run(
        "cat /sys/kernel/tracing/events/raw_syscalls/sys_exit/trigger | grep -v '^#' || true"
    )
