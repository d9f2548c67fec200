"""Whatever the parameters of a relay or a port fault: the plan carries them all, and its undo names what it made."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell import faults
from stormcell.faults._redirect import Redirected
from stormcell.spec.fault import Output, Reading

PORT = st.integers(1, 65535)
ADDRESSES = st.lists(
    st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str) | st.sampled_from(["10.0.0.0/8", "fd00::/8"]),
    max_size=3,
    unique=True,
)
MS = st.integers(1, 600_000)


@st.composite
def relay_spec(draw):
    spec = {draw(st.sampled_from(["remote_port", "local_port"])): draw(PORT)}
    if addresses := draw(ADDRESSES):
        spec["address"] = addresses
    spec["share"] = f"{draw(st.integers(1, 10_000)) / 100}%"
    kind = draw(st.sampled_from(["http.first-byte", "http.slow-body", "http.abort", "http.status", "tls.stall"]))
    own = {
        "http.first-byte": lambda: {"delay": f"{draw(MS)}ms"},
        "http.slow-body": lambda: {"rate": f"{draw(st.integers(1, 1 << 30))}B"},
        "http.abort": lambda: {"after": f"{draw(st.integers(0, 1 << 30))}B"},
        "http.status": lambda: {"status": draw(st.integers(200, 599))},
        "tls.stall": lambda: {"delay": f"{draw(MS)}ms"} if draw(st.booleans()) else {},
    }
    return {"kind": kind, **spec, **own[kind]()}


@given(relay_spec(), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_a_relay_gets_its_orders_and_only_what_is_meant_is_led_to_it(spec, number):
    fault = faults.parse(spec).named(f"f{number}", number)
    assert isinstance(fault, Redirected)
    act = fault.plan()
    assert json.loads(act.apply[0].argv[6]) == fault.orders()
    rules = [line for line in act.apply[1].stdin.splitlines() if "counter" in line]
    port = spec.get("remote_port") or spec["local_port"]
    assert all(re.search(rf"th dport {port} ", line) for line in rules)
    assert all(f"redirect to :{61000 + number} " in line for line in rules)
    chains = 2 if "local_port" in spec else 1
    assert len(rules) == chains * (len(spec.get("address", ())) or 2)
    for address in spec.get("address", ()):
        assert sum(f"daddr {address} " in line for line in rules) == chains
    table = re.findall(r"^create table (\S+) (\S+)$", act.apply[1].stdin, re.M)
    assert [f"delete table {family} {name}\n" for family, name in table] == [act.undo[0].stdin]
    assert act.undo[1].argv[1:5] == ("relay", "stop", f"f{number}", str(61000 + number))


@given(st.integers(0, 20_000), PORT, st.integers(2, 2000), st.ip_addresses().map(str), st.integers(1, 1_000_000))
@settings(max_examples=100, deadline=None)
def test_port_faults_carry_their_amounts_and_put_back_what_was(leave, port, count, address, most):
    ephemeral = faults.parse({"kind": "port.ephemeral", "leave": leave}).plan()
    assert ephemeral.apply[0].argv[1:] == ("ports", "reserve", "fault", str(leave))
    assert ephemeral.undo[0].argv[1:] == ("ports", "restore", "fault", "{before:reserved}")
    wait = faults.parse({"kind": "port.time-wait", "remote_port": port, "address": address, "count": count}).plan()
    assert wait.apply[0].argv[3:6] == ("fault", address, str(port))
    assert int(wait.apply[0].argv[6]) - count in (0, 1)
    assert wait.undo[0].argv[-1] == "{before:reuse}"
    backlog = faults.parse({"kind": "port.backlog", "local_port": port}).plan()
    assert f"th sport {port} " in backlog.apply[0].stdin
    assert backlog.undo[0].argv[-2:] == ("{before:tcp_syncookies}", "{before:tcp_max_syn_backlog}")
    table = faults.parse({"kind": "port.conntrack", "max": most}).plan()
    assert table.apply[1].argv[-1] == str(most)
    assert table.undo[0].argv[-1] == "{before:max}"
    for act in (ephemeral, wait, backlog, table):
        named = {command.name for command in act.read}
        assert set(re.findall(r"\{before:(\w+)\}", " ".join(" ".join(c.argv) for c in act.undo))) <= named


KINDS = [kind for kind in faults.CATALOGUE if kind.split(".")[0] in ("dns", "http", "tls", "port")]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["orders", "answered", "running", "trusted", "outcomes", "held_least", "held_most", "probe",
                         "caches", "range", "reserved", "refused", "connect EADDRNOTAVAIL", "waiting", "queues",
                         "half_open", "full_at", "settings", "dropped", "ListenDrops", "since", "drop", "marked",
                         "nftables", "rule", "hits", "counting"]), inner, max_size=5), max_leaves=14)  # fmt: skip


@given(st.sampled_from(KINDS), ANY)
@settings(max_examples=500, deadline=None)
def test_whatever_a_guest_writes_is_judged_without_a_crash(kind, written):
    fault = faults.parse(faults.CATALOGUE[kind].example)
    names = [command.name for command in fault.plan().read]
    reading = Reading(outputs={name: Output(exit=0, out=json.dumps(written)) for name in names})
    assert fault.in_force(reading, reading) is False
    assert isinstance(fault.acted(reading, reading), int)
    fault.lasted(reading, reading, reading)
    fault.clean(reading, reading)
    fault.notes(reading, reading, reading)
