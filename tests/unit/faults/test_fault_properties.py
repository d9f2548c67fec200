"""Whatever the parameters: a plan undoes what it applies, carries them all, and holds nothing a shell would read."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stormcell import faults
from stormcell.faults._network import Traffic
from stormcell.faults._qdisc import documents
from stormcell.faults._tc import percent
from stormcell.spec.fault import Act, Fault, Reading

DEVICES = st.lists(st.sampled_from(["lo", "eth0", "eth1", "wlan-1"]), min_size=1, max_size=3, unique=True)
ADDRESSES = st.lists(
    st.one_of(
        st.ip_addresses(v=4).map(str),
        st.ip_addresses(v=6).map(str),
        st.sampled_from(["10.0.0.0/8", "192.168.7.0/24", "fd00::/8", "2001:db8::/32"]),
    ),
    max_size=3,
    unique=True,
)
PORTS = st.none() | st.integers(1, 65535)
MS = st.integers(1, 60_000)
KINDS = ["net.delay", "net.loss", "net.rate", "net.drop", "net.reject", "net.duplicate", "net.corrupt", "net.reorder",
         "net.slot", "net.impair"]  # fmt: skip


@st.composite
def traffic(draw):
    spec = {
        "device": draw(DEVICES),
        "direction": draw(st.sampled_from(["out", "in", "both"])),
        "address": draw(ADDRESSES),
        "remote_port": draw(PORTS),
        "local_port": draw(PORTS),
        "protocol": draw(st.sampled_from([None, "tcp", "udp", "icmp"])),
    }
    if spec["protocol"] == "icmp":
        spec["remote_port"] = spec["local_port"] = None
    return {key: value for key, value in spec.items() if value not in (None, [])}


@st.composite
def network_spec(draw):
    spec = draw(traffic())
    kind = draw(st.sampled_from(KINDS))
    if kind == "net.delay":
        delay = draw(MS)
        jitter = draw(st.integers(0, delay))
        spec |= {"delay": f"{delay}ms", "jitter": f"{jitter}ms"}
        if jitter:
            spec |= {"distribution": draw(st.sampled_from(["uniform", "normal", "pareto"])), "correlation": "25%"}
    elif kind == "net.loss":
        spec |= {"loss": f"{draw(st.integers(1, 10_000)) / 100}%"}
    elif kind in ("net.duplicate", "net.corrupt"):
        spec |= {kind[4:]: f"{draw(st.integers(1, 10_000)) / 100}%"}
    elif kind == "net.reorder":
        spec |= {"reorder": f"{draw(st.integers(1, 99))}%", "delay": f"{draw(MS)}ms"}
    elif kind == "net.slot":
        spec |= {"every": f"{draw(MS)}ms", "slot_packets": draw(st.integers(0, 100))}
    elif kind == "net.impair":
        spec |= {"delay": f"{draw(MS)}ms", "loss": f"{draw(st.integers(1, 100))}%"}
    elif kind == "net.rate":
        spec |= {"rate": f"{draw(st.integers(8, 10_000_000))}kbit"}
    elif kind == "net.reject" and spec.get("protocol") in ("udp", "icmp"):
        spec |= {"with": "port-unreachable"}
    return {"kind": kind, **spec}


def text_of(act: Act) -> str:
    return "\n".join(
        " ".join(command.argv) + "\n" + command.stdin for part in (act.apply, act.undo, act.read) for command in part
    )


@given(network_spec())
@settings(max_examples=300, deadline=None)
def test_every_requested_parameter_is_in_the_commands(spec):
    fault = faults.parse(spec)
    assert isinstance(fault, Traffic)
    made = "\n".join(command.stdin for command in fault.plan().apply)
    for device in fault.device:
        assert re.search(rf'["\s]{re.escape(device)}["\s]', made)
    for address in fault.address:
        assert f" {address} " in made
    for port in (fault.remote_port, fault.local_port):
        assert port is None or re.search(rf"port {port}\b", made)
    if fault.protocol:
        assert fault.protocol in made
    wanted = {
        "net.delay": lambda: f"delay {round(fault.delay * 1e6)}us",  # type: ignore[attr-defined]
        "net.loss": lambda: f"loss {percent(fault.loss)}",  # type: ignore[attr-defined]
        "net.rate": lambda: f"rate {fault.rate}bit",  # type: ignore[attr-defined]
        "net.drop": lambda: "counter",
        "net.duplicate": lambda: "netem duplicate 100% limit",
        "net.corrupt": lambda: "netem corrupt 100% 0% limit",
        "net.reorder": lambda: f"reorder {percent(fault.reorder)} 0% gap 1",  # type: ignore[attr-defined]
        "net.slot": lambda: f"netem slot {round(fault.every * 1e6)}us",  # type: ignore[attr-defined]
        "net.impair": lambda: f"delay {round(fault.delay * 1e6)}us 0us 0% loss {percent(fault.loss)} 0%",  # type: ignore[attr-defined]
        "net.reject": lambda: "counter reject with",
    }[fault.kind]()
    assert made.count(wanted) >= len(fault.device) * len(fault.ways)


@given(network_spec())
@settings(max_examples=300, deadline=None)
def test_what_is_made_is_unmade(spec):
    act = faults.parse(spec).plan()
    made = "\n".join(command.stdin for command in act.apply)
    unmade = "\n".join([" ".join(command.argv) + "\n" + command.stdin for command in act.undo])
    argvs = [" ".join(command.argv) for command in act.apply]
    own = [name for argv in argvs if " link make " in argv for name in argv.split()[5:]]
    released = [name for command in act.undo if "release" in command.argv for name in command.argv[4:]]
    assert own == released
    for device, _ in re.findall(r"^qdisc add dev (\S+) root handle (\S+)", made, re.M):
        assert device in own, "no qdisc of a device that is not ours"
    for device, pref in re.findall(r"link hook (\S+) (\d+)", "\n".join(argvs)):
        assert f"link unhook {device} {pref}" in unmade
    for table in re.findall(r"^create table (\S+ \S+)", made, re.M):
        assert f"delete table {table}" in unmade


@given(network_spec())
@settings(max_examples=200, deadline=None)
def test_unmatched_packets_never_meet_the_fault(spec):
    """Every rule names a family, and with a filter every rule has a condition of it."""
    fault = faults.parse(spec)
    assert isinstance(fault, Traffic)
    made = "\n".join(command.stdin for command in fault.plan().apply)
    rules = re.findall(r"^add rule .* counter .*$", made, re.M)
    assert rules
    for rule in rules:
        if fault.filtered:
            assert re.search(r"meta l4proto|daddr|saddr", rule)
        assert "meta protocol" in rule or " daddr " in rule or " saddr " in rule or not fault.filtered


@given(network_spec(), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_two_of_one_kind_share_no_name(spec, number):
    names = []
    for one in (faults.parse(spec).named("a", number), faults.parse(spec).named("b", number + 1)):
        made = text_of(one.plan())
        names.append(set(re.findall(r"\bsc\d+-\w+|stormcell_\w+", made)))
        assert all(len(name) < 16 for name in re.findall(r"\bsc\d+-\w+", made))
    assert names[0]
    assert not names[0] & names[1]


@given(network_spec())
@settings(max_examples=200, deadline=None)
def test_both_families_are_met_unless_an_address_names_one(spec):
    fault = faults.parse(spec)
    assert isinstance(fault, Traffic)
    families = {match.family for match in fault.matches()}
    if fault.address:
        assert families == {"ip6" if ":" in address else "ip" for address in fault.address}
    elif families:
        assert families == {"ip", "ip6"}


TEXT = st.text(max_size=12) | st.sampled_from(
    ["$(id)", "a;b", "a b", "`x`", "x\ny", "a'b", 'a"b', "../x", "-rf", "{x}"]
)


@st.composite
def hostile_spec(draw):
    kind = draw(st.sampled_from([kind for kind, fault in faults.CATALOGUE.items() if fault.model_fields]))
    spec = dict(faults.CATALOGUE[kind].example)
    fields = draw(st.lists(st.sampled_from(sorted(faults.CATALOGUE[kind].model_fields)), min_size=1, max_size=2))
    for field in fields:
        spec[field] = draw(TEXT | st.lists(TEXT, max_size=2))
    if "pid" in spec or "name" in spec:
        spec.pop("service", None)
    return spec


@given(hostile_spec())
@settings(max_examples=500, deadline=None)
def test_nothing_that_a_batch_or_a_shell_would_read_as_more_gets_through(spec):
    try:
        fault: Fault = faults.parse(spec)
    except ValidationError:
        return
    if fault.kind == "custom.commands":
        return  # what a user writes is the user's
    for part in (fault.plan().apply, fault.plan().undo, fault.plan().read):
        for command in part:
            for written in command.stdin.splitlines():
                line = re.sub(r"mod 1000000 < |tcp flags & \(fin \| syn \| rst \| ack\) ", "", written)  # nft's own
                assert re.fullmatch(r'[\w .:/%+@{}";&=-]*', line), line
            for word in command.argv:
                assert "\0" not in word
            assert command.argv[0] in {"tc", "ip", "nft", "cat", "sleep", "stormcell-guest", "machine"}


@given(st.text())
def test_any_text_is_documents_or_none(text):
    assert isinstance(documents(text), list)


@given(st.lists(st.lists(st.integers(), max_size=3), max_size=4))
def test_documents_are_read_back(items):
    import json

    assert documents("\n".join(map(json.dumps, items)) + "\n") == items


@given(network_spec(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                                        st.sampled_from(["nftables", "rule", "table", "expr", "options", "dev", "kind",
                                                         "handle", "counter", "packets", "family", "name", "comment"]),
                                        inner, max_size=4), max_leaves=12))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_whatever_a_guest_writes_is_judged_without_a_crash(spec, written):
    import json

    from stormcell.spec.fault import Output

    fault = faults.parse(spec)
    for text in (json.dumps(written), json.dumps([written])):
        reading = Reading(outputs={name: Output(exit=0, out=text) for name in ("tc", "links", "nft")})
        assert fault.in_force(reading, reading) is False
        assert fault.acted(reading, reading) == 0
        fault.clean(reading, reading)
        fault.notes(reading, reading, reading)
