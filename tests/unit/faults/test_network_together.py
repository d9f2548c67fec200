"""Several network faults at once: which can be, and how one that is in force is changed."""

import pytest

from stormcell import faults

DELAY = {"kind": "net.delay", "device": "lo", "delay": "100ms"}
LOSS = {"kind": "net.loss", "device": "lo", "loss": "10%"}
DROP = {"kind": "net.drop", "device": "lo"}
REJECT = {"kind": "net.reject", "device": "lo"}


def conflict(one, other):
    """What is said about both, the same in either order."""
    first, second = faults.parse(one), faults.parse(other)
    said = (first.conflicts(second), second.conflicts(first))
    assert (said[0] is None) == (said[1] is None)
    return said[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"remote_port": 80}, {"remote_port": 81}),
        ({"remote_port": 80, "protocol": "tcp"}, {"remote_port": 80, "protocol": "udp"}),
        ({"address": "10.0.0.0/8"}, {"address": "11.0.0.1"}),
        ({"address": "10.0.0.1"}, {"address": "fd00::1"}),
        ({"address": "10.0.0.1"}, {"host": "db.example", "protocol": "icmp", "device": "eth0"}),
        ({"host": "db.example"}, {"host": "web.example"}),
        ({"direction": "in"}, {"direction": "out"}),
        ({"device": "eth0"}, {"device": ["lo", "eth1"]}),
    ],
)
def test_queues_for_other_packets_stand_side_by_side(one, other):
    assert conflict({**DELAY, **one}, {**LOSS, **other}) is None


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({}, {}, "out on lo"),
        ({}, {"remote_port": 80}, "out on lo"),
        ({"remote_port": 80}, {"local_port": 80}, "out on lo"),
        ({"address": "10.0.0.0/8"}, {"address": "10.1.0.0/16"}, "out on lo"),
        ({"address": "10.0.0.0/8"}, {"host": "db.example"}, "out on lo"),
        ({"host": ["a.example", "db.example"]}, {"host": "db.example"}, "out on lo"),
        ({"direction": "both"}, {"direction": "in"}, "in on lo"),
        ({"device": ["eth0", "lo"]}, {}, "out on lo"),
    ],
)
def test_queues_for_the_same_packets_are_refused_with_a_way_out(one, other, where):
    said = conflict({**DELAY, **one}, {**LOSS, **other})
    assert said is not None
    assert where in said
    assert "net.impair" in said


def test_what_takes_all_packets_away_leaves_nothing_to_delay():
    assert "takes every packet away that net.delay means" in str(conflict(DROP, {**DELAY, "remote_port": 80}))
    assert "takes every packet away" in str(conflict({**REJECT, "with": "no-route"}, DELAY))
    assert "takes every packet away" in str(conflict(DROP, {**DROP, "remote_port": 80}))
    assert "takes every packet away" in str(conflict({**DROP, "host": "a.example"}, {**DELAY, "host": "a.example"}))
    assert "takes every packet away" in str(
        conflict({**DROP, "address": "10.0.0.0/8"}, {**DROP, "address": "10.1.0.1"})
    )


def test_a_link_that_is_down_leaves_nothing_to_act_on():
    down = {"kind": "net.down", "device": "lo"}
    for other in (DELAY, DROP, REJECT):
        first, second = faults.parse(down), faults.parse(other)
        assert "lo is down under net.down" in str(first.conflicts(second))
        assert first.conflicts(faults.parse({**other, "device": "eth0"})) is None
    assert faults.parse(down).conflicts(faults.parse({"kind": "net.cut"})) is None


def test_what_takes_some_packets_away_leaves_others():
    assert conflict({**DROP, "remote_port": 80}, DELAY) is None
    assert conflict({**DROP, "connections": "new", "remote_port": 80}, {**DELAY, "remote_port": 80}) is None
    assert conflict({**REJECT, "direction": "in", "with": "no-route"}, {**DELAY, "direction": "in"}) is None
    assert conflict({**DROP, "remote_port": 80}, {**DROP, "remote_port": 81}) is None
    assert conflict({**DROP, "address": "10.0.0.1"}, {**DELAY, "host": "a.example"}) is None
    assert conflict(DROP, {"kind": "dns.drop"}) is None


@pytest.mark.parametrize(
    ("spec", "to"),
    [
        (DELAY, {"delay": "200ms"}),
        ({**DELAY, "jitter": "5ms", "correlation": "10%"}, {"jitter": "50ms", "correlation": "0%"}),
        (LOSS, {"loss": "90%"}),
        ({"kind": "net.loss", "burst_start": "1%"}, {"burst_start": "2%"}),
        ({"kind": "net.rate", "rate": "1mbit"}, {"rate": "64kbit"}),
        ({"kind": "net.reorder", "reorder": "10%", "delay": "5ms"}, {"reorder": "20%", "delay": "9ms"}),
        ({"kind": "net.slot", "every": "10ms"}, {"every": "20ms"}),
        ({"kind": "net.impair", "delay": "10ms", "loss": "1%"}, {"delay": "90ms", "loss": "5%"}),
    ],
)
def test_amounts_change_in_place_on_every_device(spec, to):
    before = faults.parse({**spec, "device": ["lo", "eth0"], "direction": "both"}).named("x", 3)
    after = faults.parse({**spec, **to, "device": ["lo", "eth0"], "direction": "both"}).named("x", 3)
    commands = before.change(after)
    assert commands is not None
    (command,) = commands
    lines = command.stdin.splitlines()
    assert [line.split()[3] for line in lines] == ["sc3-out0", "sc3-in0", "sc3-out1", "sc3-in1"]
    assert all(line.startswith("qdisc change dev ") for line in lines)
    made = [line for one in after.plan().apply for line in one.stdin.splitlines() if line.startswith("qdisc add")]
    assert [line.replace("change", "add") for line in lines] == made


@pytest.mark.parametrize(
    ("spec", "to"),
    [
        (DELAY, {"device": "eth0"}),
        (DELAY, {"remote_port": 80}),
        ({**DELAY, "host": "a.example"}, {"host": "b.example"}),
        ({**DELAY, "jitter": "5ms", "distribution": "normal"}, {"distribution": "uniform"}),
        ({"kind": "net.loss", "every": 5}, {"every": 6}),
        ({"kind": "net.loss", "burst_start": "1%"}, {"burst_start": None, "loss": "1%"}),
        ({"kind": "net.rate", "rate": "1mbit"}, {"shaper": "netem"}),
        ({"kind": "net.duplicate", "duplicate": "10%"}, {"duplicate": "20%"}),
        ({"kind": "net.impair", "delay": "10ms", "loss": "1%", "corrupt": "1%"}, {"corrupt": "0%"}),
        (DROP, {"remote_port": 80}),
    ],
)
def test_what_the_kernel_cannot_change_in_place_is_applied_anew(spec, to):
    after = {key: value for key, value in {**spec, **to}.items() if value is not None}
    assert faults.parse(spec).change(faults.parse(after)) is None
