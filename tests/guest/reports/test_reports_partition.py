"""Partitions with a hole, of the wrong pair, of the wrong direction, or of another kind than was meant.

28: https://github.com/chaos-mesh/chaos-mesh/issues/3466, 32: https://github.com/chaos-mesh/chaos-mesh/issues/3204,
33: https://github.com/chaos-mesh/chaos-mesh/issues/4477, 51: https://github.com/chaos-mesh/chaos-mesh/issues/1485,
52: https://github.com/chaos-mesh/chaos-mesh/issues/5067
"""

import pytest
from pydantic import ValidationError

from stormcell import faults
from tests.guest.faults.fault_trial import until
from tests.guest.faults.network_said import TOOL, connect, how, settled
from tests.guest.reports.network_place import FAR, FAR6, NEAR, ON_FAR, OTHER, WAYS, custom, judged, ready

DROP = {"kind": "net.drop", "device": "near0"}
DARK = {"timeout": 2}
"""How long a connection is tried that is to get no answer."""
COUNTED = "nft -j list table {table} | grep -o '\"packets\": [0-9]*' | awk '{{n += $2}} END {{print n + 0}}'"


def chain(family):
    table = f"nft add table {family} naive"
    return f"{table}; nft add chain {family} naive c '{{ type filter hook output priority 0 ; }}'"


@pytest.fixture(scope="module")
def place(bench):
    return ready(bench, "veth")


@WAYS
def test_28_a_partition_has_two_families(place, way):
    """The naive one counts what it took of IPv6: nothing, for there is no rule."""
    v6 = "nft -j list table ip6 naive 2>/dev/null | grep -o '\"packets\": [0-9]*' | awk '{n += $2} END {print n + 0}'"
    naive = custom(
        f"{chain('ip')}; nft add rule ip naive c ip daddr {FAR} counter drop",
        "nft delete table ip naive", "nft list table ip naive", v6,
    )  # fmt: skip
    ours = {**DROP, "host": "far.test", "remote_port": 9000}
    trial = place.attempt(
        naive if way == "naive" else ours,
        under=[connect(FAR, **DARK), connect(FAR6, **({} if way == "naive" else DARK))],
    )
    v4, v6_said = how(trial.said[0])[0], how(trial.said[1])[0]
    assert v4 == "TIMEOUT"
    if way == "naive":
        assert v6_said == "OK"
        assert judged(trial) == "never_acted"
        only = place.attempt({**DROP, "remote_port": 9000}, under=[connect(FAR, **DARK)])
        assert "only IPv4 was met: this run shows nothing about IPv6" in only.receipt.notes
        return
    trial.proven()
    assert v6_said == "TIMEOUT"
    notes = trial.receipt.notes
    assert f"far.test meant {FAR}, {FAR6}" in notes
    assert any(note.startswith("out near0 ip tcp dst @host_ip dport 9000: ") for note in notes)
    assert any(note.startswith("out near0 ip6 tcp dst @host_ip6 dport 9000: ") for note in notes)
    assert sum("answered in" in note and "no answer under the fault" in note for note in notes) == 2


@WAYS
def test_32_two_targets_are_not_parted_from_each_other(place, way):
    """A is this guest, B and C are its peers, and B reaches C over a cable of their own."""
    between = f"{ON_FAR} {connect('10.79.0.2', **(DARK if way == 'naive' else {}))}"
    rules = f"ip daddr {{ {FAR}, {OTHER}, 10.79.0.2, 10.79.0.1 }} counter drop"
    cross = f"{chain('inet')}; nft add rule inet naive c {rules}"
    naive = custom(
        f"{cross}; {ON_FAR} sh -c \"{cross}\"",
        f"nft delete table inet naive; {ON_FAR} nft delete table inet naive",
        "nft list table inet naive", COUNTED.format(table="inet naive"),
    )  # fmt: skip
    if way == "naive":
        trial = place.attempt(naive, under=[between])
        assert how(trial.said[0])[0] == "TIMEOUT", "the third pair is hit"
        assert judged(trial) == "never_acted", "and the rule that was meant met nothing"
        return
    ours = {**DROP, "device": ["near0", "near1"], "address": [FAR, OTHER], "remote_port": 9000}
    trial = place.attempt(ours, under=[connect(FAR, **DARK), connect(OTHER, **DARK), between])
    trial.proven()
    assert [how(said)[0] for said in trial.said] == ["TIMEOUT", "TIMEOUT", "OK"]
    matrix = [note for note in trial.receipt.notes if note.startswith("reach ")]
    assert [note.split(":")[0] for note in matrix] == [f"reach tcp/{FAR}/9000", f"reach tcp/{OTHER}/9000"]
    assert all("answered in" in note and "no answer under the fault" in note for note in matrix)
    assert trial.receipt.readings["undone"].text("reach").count("answered in") == 2


@WAYS
def test_33_one_way_is_not_both(place, way):
    """`to` a peer: what it sends still comes. TCP needs both directions, so one of them is cut for new connections."""
    incoming = f"{ON_FAR} {connect(NEAR, **(DARK if way == 'naive' else {}))}"
    came = f"{ON_FAR} {TOOL} flow {NEAR} 9200 50 5 /tmp/sent"
    place.run(f"rm -f /tmp/got; setsid {TOOL} sink 9200 /tmp/got > /dev/null 2>&1 & echo $! > /tmp/sink.pid; "
              f"{until('[ -s /tmp/got ]')}")  # fmt: skip
    spec = {**DROP, "address": FAR, **({"connections": "new"} if way == "ours" else {})}
    trial = place.attempt(spec, under=[connect(FAR, **DARK), incoming, f"{came}; {settled('/tmp/got')}"])
    place.run("kill $(cat /tmp/sink.pid)")
    trial.proven()
    assert how(trial.said[0])[0] == "TIMEOUT"
    assert trial.said[2].split()[0] == "50", "datagrams come in"
    assert how(trial.said[1])[0] == ("TIMEOUT" if way == "naive" else "OK")
    warned = any("TCP needs both directions" in said for said in trial.fault.cannot_know())
    assert warned is (way == "naive")


@WAYS
def test_51_a_network_does_not_tell_the_sender(place, way):
    datagrams = f"{TOOL} datagrams {FAR} 9000 2 1"
    naive = custom(
        f"{chain('inet')}; nft add rule inet naive c ip daddr {FAR} counter drop", "nft delete table inet naive",
        "nft list table inet naive", COUNTED.format(table="inet naive"),
    )  # fmt: skip
    if way == "naive":
        trial = place.attempt(naive, under=[datagrams])
        assert trial.said == ["back 0 failed 2\n"], "each send failed with EPERM"
        return
    for spec in ({**DROP, "remote_port": 9000}, {"kind": "net.loss", "device": "near0", "loss": "100%"}):
        trial = place.attempt(spec, under=[datagrams])
        trial.proven()
        assert trial.said == ["back 0 failed 0\n"]


@WAYS
def test_52_to_drop_and_to_refuse_are_two_things(place, way):
    if way == "naive":
        with pytest.raises(ValidationError, match="only TCP knows a reset"):
            faults.parse({"kind": "net.reject", "protocol": "udp", "remote_port": 9000})
        trial = place.attempt({**DROP, "remote_port": 9000}, under=[connect(FAR, **DARK)])
        word, milliseconds = how(trial.said[0])
        assert (word, milliseconds >= 1990) == ("TIMEOUT", True)
        return
    answers = {"tcp-reset": "ECONNREFUSED", "port-unreachable": "ECONNREFUSED", "host-unreachable": "EHOSTUNREACH",
               "admin-prohibited": "EHOSTUNREACH"}  # fmt: skip
    for answer, error in answers.items():
        spec = {"kind": "net.reject", "device": "near0", "remote_port": 9000, "with": answer}
        trial = place.attempt(spec, under=[connect(FAR, times=3)])
        trial.proven()
        assert how(trial.said[0])[0] == error
        assert how(trial.said[0])[1] < 1000
