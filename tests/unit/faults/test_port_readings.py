"""What the faults of ports make of readings, recorded and changed; and what of their tools can run anywhere."""

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell import faults
from stormcell.faults._ports import ports as listed
from stormcell.guest.tools.port import backlog, conntable
from stormcell.guest.tools.port import tool as ports
from stormcell.spec.fault import Reading
from tests.unit.faults.fault_cases import compares, one
from tests.unit.faults.test_fault_readings import changed

OTHER = [
    ("port.ephemeral", {"leave": 1}),
    ("port.ephemeral.idle", {"leave": 99}),
    ("port.time-wait", {"count": 24}),
    ("port.time-wait.idle", {"count": 23}),
    ("port.backlog", {"local_port": 9101}),
    ("port.conntrack", {"max": 3}),
]


@pytest.mark.parametrize(("name", "other"), OTHER)
def test_every_parameter_is_compared_with_what_the_kernel_shows(name, other):
    compares(name, other)


def test_what_was_reserved_before_stays_so():
    record = one("port.ephemeral.idle")
    assert record.before.text("reserved") == "8080,40000-40010"
    lost = changed(record.during, "ports", '"reserved": "8080,', '"reserved": "')
    assert not record.fault.in_force(record.before, lost)
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "ports", "8080,", ""))


@given(st.sets(st.integers(1, 65535), max_size=30))
def test_a_list_of_ports_is_read_as_the_kernel_writes_it(numbers):
    parts, rest = [], sorted(numbers)
    while rest:
        end = next((i for i, n in enumerate(rest) if n != rest[0] + i), len(rest))
        parts.append(f"{rest[0]}" if end == 1 else f"{rest[0]}-{rest[end - 1]}")
        rest = rest[end:]
    assert listed(",".join(parts)) == numbers


@pytest.mark.parametrize("text", [None, 7, "a", "1-b", "-3", "٣", "1-99999999999", ["1"]])
def test_what_is_no_list_of_ports_takes_no_time_and_no_port(text):
    assert len(listed(text)) <= 65535


def test_refusals_are_counted_by_call_and_binds_are_only_noted():
    record = one("port.ephemeral")
    notes = record.fault.notes(None, None, record.after)
    assert record.acted == 10
    assert any("7 times connect EADDRNOTAVAIL" in note for note in notes)
    assert any("3 times connect EAGAIN" in note for note in notes)
    assert any("2 times bind EADDRINUSE" in note for note in notes)


def test_a_pile_that_is_not_high_enough_or_not_kept_up_is_not_in_force():
    record = one("port.time-wait")
    shown = json.loads(record.during.text("ports"))
    for key, value in (("waiting", 17), ("running", False), ("reuse", "2"), ("counting", False)):
        other = record.during.outputs["ports"].model_copy(update={"out": json.dumps({**shown, key: value})})
        assert not record.fault.in_force(record.before, Reading(outputs={**record.during.outputs, "ports": other}))
    assert any(
        "sockets waited towards 127.0.0.1 port 9000" in note for note in record.fault.notes(None, None, record.after)
    )


def test_a_queue_that_is_not_full_or_answers_with_cookies_is_not_in_force():
    record = one("port.backlog")
    for old, new in (('"half_open": 17', '"half_open": 16'), ('"tcp_syncookies": "0"', '"tcp_syncookies": "1"'),
                     ('"running": true', '"running": false')):  # fmt: skip
        assert not record.fault.in_force(record.before, changed(record.during, "backlog", old, new))
    few = changed(record.after, "backlog", '"half_open": 17', '"half_open": 9')
    assert not record.fault.lasted(record.before, record.during, few)


def test_only_syns_that_the_kernel_dropped_and_nobody_answered_count():
    record = one("port.backlog")
    shown = json.loads(record.after.text("backlog"))
    assert record.acted == shown["dropped"]["ListenDrops"] > 0
    none = {**shown, "dropped": {"ListenDrops": 0}}
    other = record.after.outputs["backlog"].model_copy(update={"out": json.dumps(none)})
    assert record.fault.acted(record.during, Reading(outputs={**record.after.outputs, "backlog": other})) == 0


def test_a_setting_or_a_rule_that_is_left_is_not_clean():
    record = one("port.backlog")
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "tcp_syncookies", "1", "0"))
    with_table = Reading(outputs={**record.undone.outputs, "nft": record.during.outputs["nft"]})
    assert not record.fault.clean(record.before, with_table)
    record = one("port.conntrack")
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "max", record.undone.text("max"), "2"))


def test_the_kernels_log_is_noted():
    notes = one("port.conntrack").fault.notes(None, None, one("port.conntrack").after)
    assert any("table full, dropping packet" in note for note in notes)
    assert any(note.startswith("drop: ") for note in notes)


def test_what_cannot_be_together_says_why():
    ephemeral, wait = (faults.parse(spec) for spec in ({"kind": "port.ephemeral"}, {"kind": "port.time-wait",
                                                                                    "remote_port": 80}))  # fmt: skip
    table = faults.parse({"kind": "port.conntrack"})
    assert "there is one list" in str(ephemeral.conflicts(wait))
    assert "there is one" in str(table.conflicts(table))
    assert "a redirection needs the table" in str(table.conflicts(faults.parse({"kind": "dns.fail"})))
    assert ephemeral.conflicts(table) is None


def test_amounts_change_in_place():
    one_, ten = (faults.parse({"kind": "port.ephemeral", "leave": n}) for n in (1, 10))
    assert one_.change(ten) is not None
    assert [c.argv[1:] for c in one_.change(ten) or ()] == [("ports", "change", "fault", "10")]
    low, high = (faults.parse({"kind": "port.conntrack", "max": n}) for n in (1, 10))
    assert [c.argv[1:] for c in low.change(high) or ()] == [("conntable", "change", "fault", "10")]


# -- tools


def test_sockets_that_wait_towards_a_server_are_counted():
    for host in ("127.0.0.1", "::1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as server:
            port = server.getsockname()[1]
            before = ports.waiting(host, port)
            for _ in range(3):
                with socket.create_connection((host, port)):
                    accepted, _ = server.accept()
                accepted.close()
            assert ports.waiting(host, port) == before + 3


def test_listening_sockets_and_their_queues_are_found():
    with socket.create_server(("127.0.0.1", 0), backlog=7) as server:
        port = server.getsockname()[1]
        assert backlog.listeners(port) == [("127.0.0.1", 7)]
        assert backlog.queues(port, {"127.0.0.1": 8}) == [
            {"address": "127.0.0.1", "half_open": 0, "limit": 7, "full_at": 8}
        ]
    assert backlog.listeners(port) == []
    assert set(backlog.statistics()) == {"ListenDrops", "ListenOverflows", "TCPReqQFullDrop"}


def test_statistics_of_all_processors_are_added(tmp_path, monkeypatch):
    path = tmp_path / "stat"
    rows = ("00000003 00000001 0000000a 00000000", "00000003 00000000 00000001 00000002")
    path.write_text("\n".join(("entries  insert_failed drop early_drop", *rows)) + "\n")
    monkeypatch.setattr(conntable, "STATISTICS", str(path))
    assert conntable.statistics() == {"drop": 11, "early_drop": 2, "insert_failed": 1}
    path.unlink()
    assert conntable.statistics() == {"drop": 0, "early_drop": 0, "insert_failed": 0}
