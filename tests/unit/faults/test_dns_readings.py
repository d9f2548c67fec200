"""What the DNS faults make of readings, recorded and changed; and their plans for any parameters."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell import faults
from stormcell.faults._dns import DnsProxied
from stormcell.spec.fault import Reading
from tests.unit.faults.fault_cases import one
from tests.unit.faults.test_fault_readings import changed

OTHER = [
    ("dns.fail", {"rcode": "NXDOMAIN"}),
    ("dns.fail", {"names": "a.test"}),
    ("dns.fail", {"share": "99%"}),
    ("dns.wrong", {"address": "192.0.2.1"}),
    ("dns.wrong", {"address": ["192.0.2.1", "2001:db8::1"]}),
    ("dns.wrong", {"ttl": 1}),
    ("dns.wrong.six", {"names": "*.b.test"}),
    ("dns.slow", {"delay": "301ms"}),
    ("dns.slow", {"jitter": "49ms"}),
]


@pytest.mark.parametrize(("name", "other"), OTHER)
def test_every_parameter_is_compared_with_what_the_proxy_shows(name, other):
    record = one(name)
    assert record.fault.in_force(record.before, record.during)
    assert not faults.parse({**record.spec, **other}).in_force(record.before, record.during)


@pytest.mark.parametrize(("old", "new"), [('"rcode": 2, "addresses": [], "sec', '"rcode": 3, "addresses": [], "sec'),
                                          ('"addresses": [], "sec', '"addresses": ["10.0.0.1"], "sec')])  # fmt: skip
def test_a_fresh_query_that_gets_another_answer_shows_no_fault(old, new):
    record = one("dns.fail")
    assert not record.fault.in_force(record.before, changed(record.during, "proxy", old, new))


def test_a_redirection_that_leads_elsewhere_is_seen():
    for name in ("dns.fail", "dns.wrong", "dns.slow"):
        record = one(name)
        other = changed(record.during, "nft", '{"port": 61001}', '{"port": 61002}')
        assert not record.fault.in_force(record.before, other)


def test_a_proxy_or_a_table_that_is_left_is_not_clean():
    record = one("dns.fail")
    assert record.undone is not None
    left = changed(record.undone, "proxy", '"left": false', '"left": true')
    assert not record.fault.clean(record.before, left)
    with_table = Reading(outputs={**record.undone.outputs, "nft": record.during.outputs["nft"]})
    assert not record.fault.clean(record.before, with_table)


def test_collateral_is_counted_and_makes_the_fault_not_last():
    record = one("dns.fail")
    notes = record.fault.notes(record.before, record.during, record.after)
    assert "2 other queries passed: 2 were answered, 0 were not" in notes
    assert "a.test A: 1 queries met the fault" in notes
    assert any(note.startswith("ip udp 53: ") for note in notes)
    lost = changed(record.after, "proxy", '"dropped": 0', '"dropped": 3')
    assert not record.fault.lasted(record.before, record.during, lost)
    assert "collateral: 3 other queries were lost in the proxy" in record.fault.notes(None, None, lost)


def test_what_needs_no_query_is_named():
    record = one("dns.fail.hosts")
    assert record.acted == 0
    assert "in /etc/hosts, so that no query is needed: a.test" in record.fault.notes(None, None, record.after)
    daemons = changed(
        record.after, "proxy", '"caches": {}', '"caches": {"nscd": "flushed", "unbound": "there is no unbound-control"}'
    )
    notes = record.fault.notes(None, None, daemons)
    assert "caching daemon that runs, emptied at the act and at the undo: nscd" in notes
    assert any("could not be emptied: unbound (there is no unbound-control)" in note for note in notes)


def test_our_own_probes_do_not_count():
    record = one("dns.fail.idle")
    assert json.loads(record.after.text("proxy"))["probes"] > 0
    assert record.acted == 0


def test_how_long_answers_were_held_is_noted():
    record = one("dns.slow")
    assert record.fault.notes(None, None, record.after)[0].startswith("answers were held between 0.2")


def test_two_of_them_stand_side_by_side():
    one_, two = (faults.parse({"kind": "dns.fail"}).named(f"f{n}", n) for n in (1, 2))
    first, second = (fault.plan().apply[1].stdin for fault in (one_, two))
    assert "table inet stormcell_dns_fail_1\n" in first
    assert "table inet stormcell_dns_fail_2\n" in second
    assert "redirect to :61001" in first
    assert "redirect to :61002" in second
    assert "0x5c0d0001-0x5c0d0063 return" in first, "what the second forwards does not come back to the first"
    assert "0x5c0d0002-0x5c0d0063 return" in second, "what the first forwards meets the second"


def test_two_answers_to_one_query_conflict():
    fail = faults.parse({"kind": "dns.fail", "names": "a.test"})
    wrong = faults.parse({"kind": "dns.wrong", "names": "a.test", "address": "192.0.2.1"})
    slow = faults.parse({"kind": "dns.slow", "names": "a.test", "delay": "1s"})
    assert "a query has one answer" in str(fail.conflicts(wrong))
    assert fail.conflicts(slow) is None
    assert fail.conflicts(faults.parse({"kind": "dns.wrong", "names": "b.test", "address": "192.0.2.1"})) is None


def test_a_running_proxy_takes_other_orders():
    slow = faults.parse({"kind": "dns.slow", "delay": "1s"})
    commands = slow.change(faults.parse({"kind": "dns.slow", "delay": "2s"}))
    assert commands is not None
    assert commands[0].argv[1:4] == ("dns", "change", "fault")
    assert json.loads(commands[0].argv[4])["delay"] == 2.0


LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
EXACT = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
NAMES = st.lists(EXACT | LABEL.map("*.{}".format), min_size=1, max_size=4, unique=True)


@given(NAMES, st.integers(1, 10_000), st.sampled_from(["NXDOMAIN", "SERVFAIL", "REFUSED", "NOTIMP", "NODATA"]))
@settings(max_examples=200, deadline=None)
def test_the_orders_carry_every_parameter(names, share, rcode):
    fault = faults.parse({"kind": "dns.fail", "names": names, "share": f"{share / 100}%", "rcode": rcode})
    assert isinstance(fault, DnsProxied)
    act = fault.plan()
    orders = json.loads(act.apply[0].argv[6])
    assert orders == fault.orders()
    assert orders["names"] == names
    assert abs(orders["share"] * 10_000 - share) < 1e-6
    assert orders["rcode"] == rcode
    assert act.undo[0].stdin == "delete table inet stormcell_dns_fail_1\n"
    assert act.undo[1].argv[1:] == ("dns", "stop", "fault", "61001")
