"""The network faults judge what a kernel really said; see test_fault_readings.py for what holds of every kind."""

import json

import pytest

from stormcell.spec.fault import Output, Reading
from tests.unit.faults.fault_cases import compares, one
from tests.unit.faults.test_fault_readings import changed

OTHER_PARAMETERS = [
    ("net.delay", {"delay": "201ms"}),
    ("net.delay", {"jitter": "1ms"}),
    ("net.delay", {"remote_port": 9001}),
    ("net.delay", {"local_port": 9000}),
    ("net.delay", {"protocol": "icmp", "remote_port": None}),
    ("net.delay", {"address": "127.0.0.1"}),
    ("net.delay", {"device": "eth0"}),
    ("net.delay", {"device": ["lo", "eth0"]}),
    ("net.delay", {"direction": "in"}),
    ("net.delay", {"direction": "both"}),
    ("net.delay.both", {"jitter": "11ms"}),
    ("net.delay.both", {"correlation": "26%"}),
    ("net.delay.both", {"delay": "51ms"}),
    ("net.delay.peer", {"address": ["10.0.3.0/24", "fec0::/64"]}),
    ("net.delay.peer", {"address": ["10.0.2.0/24", "fec0::/63"]}),
    ("net.delay.peer", {"device": ["eth0", "lo", "eth1"]}),
    ("net.loss", {"loss": "41%"}),
    ("net.loss", {"correlation": "11%"}),
    ("net.loss.in", {"protocol": "udp"}),
    ("net.loss.in", {"loss": "99%"}),
    ("net.rate", {"rate": "1001kbit", "burst": "68KiB"}),
    ("net.rate", {"rate": "2mbit"}),
    ("net.rate", {"burst": "128KiB"}),
    ("net.rate", {"queue": "2s"}),
    ("net.drop", {"remote_port": 9001}),
    ("net.drop", {"local_port": 9000}),
    ("net.drop", {"device": ["lo", "eth1"]}),
    ("net.drop", {"address": "127.0.0.1"}),
    ("net.reject", {"with": "host-unreachable"}),
    ("net.reject", {"device": "eth0"}),
    ("net.reject", {"remote_port": 1}),
    ("net.reject", {"direction": "both"}),
    ("net.reject.icmp", {"with": "no-route"}),
    ("net.reject.icmp", {"address": ["127.0.0.0/9", "::1"]}),
    ("net.delay.host", {"host": "ip6-localhost"}),
    ("net.delay.host", {"host": ["localhost", "other.example"]}),
    ("net.loss.every", {"every": 4}),
    ("net.loss.bursts", {"burst_start": "21%"}),
    ("net.loss.bursts", {"burst_end": "41%"}),
    ("net.loss.bursts", {"burst_loss": "91%"}),
    ("net.loss.bursts", {"other_loss": "2%"}),
    ("net.loss.states", {"p13": "21%"}),
    ("net.loss.states", {"p31": "31%"}),
    ("net.loss.states", {"p32": "11%"}),
    ("net.loss.states", {"p23": "21%"}),
    ("net.loss.states", {"p14": "4%"}),
    ("net.duplicate", {"duplicate": "51%"}),
    ("net.corrupt", {"corrupt": "49%"}),
    ("net.reorder", {"reorder": "61%"}),
    ("net.reorder", {"delay": "21ms"}),
    ("net.reorder", {"gap": 3}),
    ("net.reorder", {"correlation": "6%"}),
    ("net.slot", {"every": "21ms"}),
    ("net.slot", {"at_most": "31ms"}),
    ("net.slot", {"slot_packets": 4}),
    ("net.slot", {"slot_bytes": "11KiB"}),
    ("net.rate.wire", {"rate": "257kbit"}),
    ("net.rate.wire", {"packet_overhead": 11}),
    ("net.rate.wire", {"cell_size": 53}),
    ("net.rate.wire", {"cell_overhead": 6}),
    ("net.rate.wire", {"queue_packets": 51}),
    ("net.rate.wire", {"queue_packets": None, "queue": "9s"}),
    ("net.impair", {"delay": "21ms"}),
    ("net.impair", {"jitter": "6ms"}),
    ("net.impair", {"delay_correlation": "11%"}),
    ("net.impair", {"loss": "21%"}),
    ("net.impair", {"loss_correlation": "6%"}),
    ("net.impair", {"duplicate": "21%"}),
    ("net.impair", {"corrupt": "2%"}),
    ("net.impair", {"reorder": "21%"}),
    ("net.impair", {"gap": 3}),
    ("net.impair", {"rate": "11mbit"}),
    ("net.impair", {"rate": None}),
    ("net.impair", {"queue": "2s"}),
    ("net.impair.counted", {"delay": "1ms"}),
    ("net.impair.counted", {"corrupt": "1%"}),
    ("net.drop.new", {"connections": "all"}),
    ("net.down", {"device": "lo"}),
    ("net.down", {"device": ["eth0", "lo"]}),
    ("net.drop.new", {"connections": "established"}),
    ("net.drop.open", {"connections": "new"}),
]


@pytest.mark.parametrize(("name", "other"), OTHER_PARAMETERS)
def test_every_parameter_is_compared_with_what_the_kernel_shows(name, other):
    compares(name, other)


def test_a_delay_that_also_loses_is_noted():
    record = one("net.delay")
    after = changed(record.after, "tc", '"drops":0', '"drops":7')
    assert any("not asked for" in note for note in record.fault.notes(record.before, record.during, after))
    assert not any("not asked for" in n for n in record.fault.notes(record.before, record.during, record.after))


def test_a_delay_whose_queue_is_too_short_is_not_the_one_that_was_asked_for():
    record = one("net.delay")
    assert not record.fault.in_force(record.before, changed(record.during, "tc", '"limit":15000', '"limit":1000'))


def test_packets_of_the_device_that_took_another_way_do_not_count():
    record = one("net.delay.idle")
    links = json.loads(record.after.outputs["links"].out)
    assert links["lo"]["tx_packets"] > 0
    assert record.acted == 0


def test_a_rule_that_is_gone_is_seen_though_the_qdisc_stands():
    record = one("net.delay")
    shown = json.loads(record.during.outputs["nft"].out)
    (rule, *_) = [item for item in shown["nftables"] if "rule" in item]
    shown["nftables"].remove(rule)
    less = Reading(outputs={**record.during.outputs, "nft": Output(exit=0, out=json.dumps(shown))})
    assert not record.fault.in_force(record.before, less)


def test_a_rule_that_leads_elsewhere_is_seen():
    for name, ours in (("net.delay", "sc1-out0"), ("net.delay.peer", "sc1-in1")):
        record = one(name)
        assert not record.fault.in_force(record.before, changed(record.during, "nft", f'"{ours}"', '"ifb0"'))


def test_a_device_of_ours_that_is_left_or_down_is_seen():
    record = one("net.delay.both")
    assert record.undone is not None
    assert record.fault.clean(record.before, record.undone)
    assert not record.fault.clean(record.before, changed(record.undone, "links", '"lo"', '"sc1-in0"'))
    shown = json.loads(record.during.outputs["links"].out)
    shown["sc1-in0"]["up"] = False
    down = Reading(outputs={**record.during.outputs, "links": Output(exit=0, out=json.dumps(shown))})
    assert not record.fault.in_force(record.before, down)


def test_the_way_in_over_lo_that_is_left_open_is_not_clean():
    record = one("net.delay.both")
    assert record.undone is not None
    left = Reading(outputs={**record.undone.outputs, "tc": record.during.outputs["tc"]})
    assert not record.fault.clean(record.before, left)
    closed = Reading(outputs={**record.during.outputs, "tc": Output(exit=0, out=_first(record.during))})
    assert not record.fault.in_force(record.before, closed)


def _first(reading):
    return reading.outputs["tc"].out.splitlines()[0] + "\n[]\n"


def test_a_dummy_device_or_table_that_is_left_is_not_clean():
    record = one("net.drop")
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "links", '"lo"', '"sc1-sink"'))
    with_table = Reading(outputs={**record.undone.outputs, "nft": record.during.outputs["nft"]})
    assert not record.fault.clean(record.before, with_table)


def test_a_rule_that_does_something_else_is_seen():
    record = one("net.drop.everything")
    assert not record.fault.in_force(record.before, changed(record.during, "nft", '{"drop": null}', '{"accept": null}'))
    record = one("net.reject")
    assert not record.fault.in_force(record.before, changed(record.during, "nft", '"tcp reset"', '"icmpx"'))


def test_rules_that_nothing_crossed_are_named():
    record = one("net.drop")
    notes = record.fault.notes(record.before, record.during, record.after)
    assert any(note.startswith("out lo ip tcp dport 9000: ") for note in notes)
    assert any(note.startswith("nothing crossed: ") and "in eth0 ip6" in note for note in notes)


def test_that_only_one_family_was_met_is_said():
    record = one("net.drop.new")
    assert not any("shows nothing about" in note for note in _notes(record))
    assert "only IPv4 was met: this run shows nothing about IPv6" in _notes(one("net.loss.every"))


def test_the_watched_names_are_said_and_their_watcher_has_to_live():
    record = one("net.delay.host")
    assert any(note.startswith("localhost meant ") and "127.0.0.1" in note for note in _notes(record))
    dead = changed(record.during, "hosts", '"watcher": true', '"watcher": false')
    assert not record.fault.in_force(record.before, dead)
    unheld = changed(record.during, "nft", '"127.0.0.1"', '"127.0.0.9"')
    assert not record.fault.in_force(record.before, unheld)
    assert record.undone is not None
    left = changed(record.undone, "hosts", '"left": false', '"left": true')
    assert not record.fault.clean(record.before, left)


def test_our_own_attempts_to_reach_the_peer_do_not_count():
    record = one("net.drop.new")
    rules = sum(
        statement["counter"]["packets"]
        for item in json.loads(record.after.outputs["nft"].out)["nftables"]
        for statement in item.get("rule", {}).get("expr", [])[-3:]
        if "counter" in statement
    )
    assert 0 < record.acted < rules
    assert record.fault.acted(record.during, record.during) == 0
    assert any("answered in" in note and "no answer under the fault" in note for note in _notes(record))


def test_duplicates_are_what_came_out_less_what_went_in():
    record = one("net.duplicate")
    entered = sum(rule["packets"] for rule in _counters(record.after))
    assert record.acted == entered, "netem doubled each packet that the rule chose"
    lossless = changed(record.after, "tc", '"drops":0', '"drops":3')
    assert record.fault.acted(record.during, lossless) == record.acted + 3


def _counters(reading):
    """The last counter of each rule."""
    found = []
    for item in json.loads(reading.outputs["nft"].out)["nftables"]:
        counters = [one["counter"] for one in item.get("rule", {}).get("expr", []) if "counter" in one]
        found += counters[-1:]
    return found


def test_a_device_that_came_later_is_said():
    record = one("net.delay.peer")
    late = changed(record.after, "links", '"lo"', '"eth9"')
    assert "eth9 came while the fault was in force: it is not met" in record.fault.notes(
        record.before, record.during, late
    )


def test_the_parts_of_an_impairment_are_counted_one_by_one():
    notes = _notes(one("net.impair"))
    assert any("lost" in note and "doubled" in note and "sent ahead" in note for note in notes)
    assert any("does not count the packets that netem damages" in note for note in notes)


def test_a_link_that_came_up_by_itself_or_lost_a_route_is_seen():
    record = one("net.down")
    assert record.undone is not None
    assert not record.fault.in_force(record.before, changed(record.during, "links", '"up": false', '"up": true'))
    assert not record.fault.clean(record.before, changed(record.undone, "links", '"address fec0::15/64", ', ""))
    assert any("lost with the link: " in note and "address fec0::15/64" in note for note in _notes(record))
    assert any("operational state up before and down under the fault" in note for note in _notes(record))


def test_a_connection_that_is_still_there_was_not_cut():
    record = one("net.cut")
    still = changed(record.during, "cut", '"left": []', '"left": ["127.0.0.1:1 > 127.0.0.1:9000 ESTAB"]')
    assert not record.fault.in_force(record.before, still)
    assert any(note.startswith("cut 127.0.0.1:") and note.endswith(":9000 ESTAB") for note in _notes(record))
    assert any("resets of established connections" in note for note in _notes(record))


def _notes(record):
    return record.fault.notes(record.before, record.during, record.after)
