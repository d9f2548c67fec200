"""What the faults of the relay make of readings, recorded and changed; and their plans."""

import json

import pytest

from stormcell import faults
from stormcell.spec.fault import Reading
from tests.unit.faults.fault_cases import one
from tests.unit.faults.test_fault_readings import changed

OTHER = [
    ("http.first-byte", {"delay": "301ms"}),
    ("http.first-byte", {"jitter": "21ms"}),
    ("http.first-byte", {"remote_port": 8081}),
    ("http.first-byte", {"address": "127.0.0.1"}),
    ("http.first-byte", {"share": "99%"}),
    ("http.slow-body", {"rate": "1025B"}),
    ("http.slow-body", {"local_port": None, "remote_port": 8080}),
    ("http.abort", {"after": "91B"}),
    ("http.status", {"status": 502}),
    ("tls.stall", {"names": "svc.test"}),
    ("tls.stall", {"delay": "400ms"}),
    ("tls.stall.late", {"delay": "401ms"}),
    ("tls.certificate", {"problem": "not-yet-valid"}),
    ("tls.certificate", {"by": "2d"}),
    ("tls.certificate", {"names": "svc.test"}),
    ("tls.certificate", {"trust": "/root/other.pem"}),
    ("tls.certificate.own", {"ca_key": "/root/tls/other.key"}),
    ("tls.certificate.untrusted", {"problem": "self-signed"}),
]


@pytest.mark.parametrize(("name", "other"), OTHER)
def test_every_parameter_is_compared_with_what_the_relay_and_the_kernel_show(name, other):
    record = one(name)
    spec = {key: value for key, value in {**record.spec, **other}.items() if value is not None}
    assert record.fault.in_force(record.before, record.during)
    assert not faults.parse(spec).in_force(record.before, record.during)


def test_trust_that_is_left_is_not_clean_and_trust_that_is_gone_is_not_in_force():
    record = one("tls.certificate")
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "proxy", '"trusted": false', '"trusted": true'))
    gone = changed(record.during, "proxy", '"trusted": true', '"trusted": false')
    assert not record.fault.in_force(record.before, gone)
    assert not record.fault.in_force(
        changed(record.before, "proxy", '"trusted": false', '"trusted": true'), record.during
    )


def test_a_relay_or_a_table_that_is_left_is_not_clean():
    record = one("http.status")
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "proxy", '"left": false', '"left": true'))
    with_table = Reading(outputs={**record.undone.outputs, "nft": record.during.outputs["nft"]})
    assert not record.fault.clean(record.before, with_table)


def test_the_peers_own_words_are_noted():
    alert = one("tls.certificate").fault.notes(None, None, one("tls.certificate").after)
    assert "alert certificate_expired (45) from the client: 1 times" in alert
    naive = one("tls.certificate.untrusted")
    assert naive.fault.notes(None, None, naive.after)[0] == (
        "a client does not verify certificates: it accepted one that is untrusted"
    )
    stalled = one("tls.stall").fault.notes(None, None, one("tls.stall").after)
    assert any(note.startswith("the client closed the connection after 2.") for note in stalled)


def test_how_long_answers_were_held_is_noted_and_what_passed():
    record = one("http.first-byte")
    notes = record.fault.notes(None, None, record.after)
    assert notes[0] == "2 connections came; 0 answers passed untouched"
    assert notes[1].startswith("held between 0.")
    assert "out ip any: 1 flows" in notes


def test_connections_that_were_turned_away_are_collateral():
    record = one("http.abort")
    lost = changed(record.after, "proxy", '"dropped": 0', '"dropped": 2')
    assert not record.fault.lasted(record.before, record.during, lost)
    assert any(note.startswith("collateral: 2 connections") for note in record.fault.notes(None, None, lost))
    refused = changed(record.after, "proxy", '"unreachable": 0', '"unreachable": 2')
    assert any("their server did not accept them" in note for note in record.fault.notes(None, None, refused))


def test_connections_from_outside_are_led_to_the_relay_only_for_a_local_port():
    remote = faults.parse({"kind": "http.status", "remote_port": 80}).plan().apply
    local = faults.parse({"kind": "http.status", "local_port": 80}).plan().apply
    assert "prerouting" not in remote[1].stdin
    assert "hook prerouting priority -149" in local[1].stdin
    assert 'oifname "lo"' in local[1].stdin
    assert json.loads(remote[0].argv[6])["everywhere"] is False
    assert json.loads(local[0].argv[6])["everywhere"] is True


def test_trust_is_undone_from_the_receipt_alone():
    act = faults.parse({"kind": "tls.certificate", "remote_port": 443, "problem": "expired", "trust": "/etc/ca.pem"})
    assert act.named("bad", 3).plan().undo[-1].argv == ("stormcell-guest", "relay", "distrust", "bad", "/etc/ca.pem")


def test_what_answers_itself_hides_what_comes_behind_it():
    status = faults.parse({"kind": "http.status", "remote_port": 80})
    slow = faults.parse({"kind": "http.slow-body", "remote_port": 80, "rate": "1KiB"})
    first = faults.parse({"kind": "http.first-byte", "remote_port": 80, "delay": "1s"})
    assert "one answers them itself" in str(slow.conflicts(status))
    assert slow.conflicts(first) is None
    assert slow.conflicts(faults.parse({"kind": "http.status", "local_port": 80})) is None


def test_a_running_relay_takes_other_amounts_but_no_other_certificate():
    first = faults.parse({"kind": "http.first-byte", "remote_port": 80, "delay": "1s"})
    commands = first.change(faults.parse({"kind": "http.first-byte", "remote_port": 80, "delay": "3s"}))
    assert commands is not None
    assert json.loads(commands[0].argv[4])["delay"] == 3.0
    bad = faults.parse({"kind": "tls.certificate", "remote_port": 443, "problem": "untrusted"})
    assert bad.change(bad) is None
