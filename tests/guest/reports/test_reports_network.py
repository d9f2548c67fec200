"""Delay and loss that were not there, or not where or what they were said to be.

1: https://github.com/chaos-mesh/chaosd/issues/273, 2: https://github.com/tylertreat/comcast/issues/79,
3: https://github.com/krkn-chaos/krkn/pull/1501, 4: https://github.com/alexei-led/pumba/issues/157,
6: https://github.com/tylertreat/comcast/issues/50, 8: https://github.com/tylertreat/comcast/issues/37,
30: https://github.com/tylertreat/comcast/issues/66, 31: https://github.com/aws/amazon-ecs-agent/pull/4671,
42: https://github.com/alexei-led/pumba/issues/166, 54: https://github.com/iproute2/iproute2/issues/56,
55: https://github.com/chaos-mesh/chaos-mesh/issues/3399, 57: https://github.com/chaos-mesh/chaos-mesh/issues/3631
"""

import pytest
from pydantic import ValidationError

from stormcell import faults
from tests.guest.faults.fault_trial import until
from tests.guest.faults.network_said import TOOL, connect, how, lost, ping, rtt, settled
from tests.guest.reports.network_place import (
    FAR,
    NEAR,
    ON_FAR,
    OTHER,
    WAYS,
    custom,
    judged,
    netem_packets,
    ready,
)

DELAY = {"kind": "net.delay", "device": "near0", "delay": "200ms"}
SHOWN = "tc qdisc show dev near0 | grep -q 'netem.*delay 200ms'"
GONE = "tc qdisc del dev near0 root"
MANY = ping(FAR, 200, every=0.01)
"""A share of 30 % has a standard deviation of 3.3 %."""


@pytest.fixture(scope="module")
def place(bench):
    return ready(bench, "veth sch_netem sch_prio")


@WAYS
def test_01_a_delay_in_a_band_that_nothing_is_steered_to(place, way):
    naive = custom(
        "tc qdisc add dev near0 root handle 1: prio bands 4 && "
        "tc qdisc add dev near0 parent 1:4 handle 40: netem delay 200ms",
        GONE, SHOWN, netem_packets("near0"),
    )  # fmt: skip
    trial = place.attempt(naive if way == "naive" else DELAY, under=[ping(FAR, 3)])
    assert trial.receipt.clean
    if way == "naive":
        assert judged(trial) == "never_acted"
        assert rtt(trial.said[0]) < 150
        return
    trial.proven()
    assert rtt(trial.said[0]) >= 199
    assert trial.acted >= 3


@WAYS
def test_02_a_kernel_module_that_is_missing(place, way):
    place.run("rmmod sch_netem; echo 'install sch_netem /bin/false' > /etc/modprobe.d/x.conf")
    try:
        naive = custom("tc qdisc add dev near0 root netem delay 200ms", GONE, SHOWN, netem_packets("near0"))
        trial = place.attempt(naive if way == "naive" else DELAY, under=[ping(FAR, 3)])
    finally:
        place.run("rm /etc/modprobe.d/x.conf; modprobe sch_netem")
    assert trial.said == []
    if way == "naive":
        assert judged(trial) == "apply_failed"
        assert "qdisc kind is unknown" in trial.stop
        return
    assert judged(trial) == "unsupported"
    assert "kernel module 'sch_netem' cannot be loaded" in trial.stop
    place.attempt(DELAY, under=[ping(FAR, 3)]).proven()


@WAYS
def test_03_a_change_of_a_placeholder_that_is_not_there(place, way):
    shown = "tc qdisc show dev near0 | grep -q 'loss 30%'"
    change = "tc qdisc change dev near0 root netem loss 30%"
    counter = netem_packets("near0", "drops")
    if way == "naive":
        refused = place.attempt(custom(change, "true", shown, counter), under=[ping(FAR, 3)])
        assert judged(refused) == "apply_failed"
        unheeded = place.attempt(custom(f"{change} || true", "true", shown, counter), under=[ping(FAR, 3)])
        assert judged(unheeded) == "not_in_force"
        return
    first = faults.parse({"kind": "net.loss", "device": "near0", "loss": "1%"})
    changed = first.change(faults.parse({"kind": "net.loss", "device": "near0", "loss": "30%"}))
    assert changed is not None
    lines = changed[0].stdin.strip()
    under = [f"echo '{lines}' | tc -batch -; echo exit $?", "tc qdisc show dev sc1-out0", ping(FAR, 30)]
    trial = place.attempt({"kind": "net.loss", "device": "near0", "loss": "1%"}, under=under)
    assert trial.said[0] == "exit 0\n"
    assert "loss 30%" in trial.said[1]
    assert lost(trial.said[2]) > 0
    assert trial.receipt.in_force is False, "it is no longer what was asked for, and that is seen"
    asked = place.attempt({"kind": "net.loss", "device": "near0", "loss": "30%"}, under=[MANY])
    asked.proven()
    assert 13 <= lost(asked.said[0]) <= 47


@WAYS
def test_04_a_distribution_that_does_not_exist(place, way):
    table = "tc qdisc add dev near0 root netem delay 200ms 10ms distribution uniform"
    if way == "naive":
        trial = place.attempt(custom(table, GONE, SHOWN, netem_packets("near0")), under=[ping(FAR, 3)])
        assert judged(trial) == "apply_failed"
        return
    with pytest.raises(ValidationError, match="'uniform', 'normal', 'pareto' or 'paretonormal'"):
        faults.parse({**DELAY, "jitter": "10ms", "distribution": "gauss"})
    for distribution in ("uniform", "pareto"):
        spec = {**DELAY, "jitter": "10ms", "distribution": distribution}
        trial = place.attempt(spec, under=[ping(FAR, 3)])
        trial.proven()
        assert rtt(trial.said[0]) >= 150


@WAYS
def test_06_what_comes_in_is_another_direction(place, way):
    trial = place.attempt({**DELAY, "direction": "out" if way == "naive" else "both"}, under=[ping(FAR, 3)])
    trial.proven()
    round_trip = rtt(trial.said[0])
    queues = [note for note in trial.receipt.notes if " on near0: netem let through " in note]
    if way == "naive":
        assert 199 <= round_trip < 390
        assert len(queues) == 1
    else:
        assert round_trip >= 398
        assert [note.split()[0] for note in queues] == ["out", "in"]
        assert not any(" let through 0 " in note for note in queues)


@WAYS
def test_08_on_lo_a_round_trip_meets_the_fault_twice(place, way):
    if way == "naive":
        trial = place.attempt({**DELAY, "device": "lo", "delay": "100ms"}, under=[ping("127.0.0.1")])
        trial.proven()
        assert rtt(trial.said[0]) >= 199
        assert any("a round trip meets the fault twice" in said for said in trial.fault.cannot_know())
        half = place.attempt({"kind": "net.loss", "device": "lo", "protocol": "icmp", "loss": "50%"},
                             under=[ping("127.0.0.1", 200, every=0.01)])  # fmt: skip
        assert 59 < lost(half.said[0]) < 91  # 1 - 0.5^2 = 75 %, with a standard deviation of 3.1 %
        return
    one_way = {**DELAY, "device": "lo", "delay": "100ms", "remote_port": 9000}
    trial = place.attempt(one_way, under=[connect("127.0.0.1", times=3)])
    trial.proven()
    assert 99 <= how(trial.said[0])[1] < 195
    assert not any("twice" in said for said in trial.fault.cannot_know())


@WAYS
def test_30_a_port_is_that_of_the_peer_or_our_own(place, way):
    port = "remote_port" if way == "naive" else "local_port"
    under = [f"{ON_FAR} {connect(NEAR, times=3)}"]
    trial = place.attempt({**DELAY, port: 9000}, under=under)
    assert trial.receipt.clean
    if way == "naive":  # the service is in this machine: its answers come from the port
        assert judged(trial) == "never_acted"
        assert how(trial.said[0])[1] < 195
    else:
        trial.proven()
        assert how(trial.said[0])[1] >= 199


@WAYS
def test_31_every_device_that_is_meant_is_named(place, way):
    devices = "near0" if way == "naive" else ["near0", "near1"]
    late = "ip link add hot0 type dummy; ip link set hot0 up"
    trial = place.attempt({**DELAY, "device": devices}, under=[ping(OTHER), *([late] if way == "ours" else [])])
    place.run("ip link del hot0 2>/dev/null; true")
    if way == "naive":
        assert judged(trial) == "never_acted"
        assert rtt(trial.said[0]) < 150
        return
    trial.proven()
    assert rtt(trial.said[0]) >= 199
    assert [n.split()[2] for n in trial.receipt.notes if "netem let through" in n] == ["near0:", "near1:"]
    assert "hot0 came while the fault was in force: it is not met" in trial.receipt.notes


@WAYS
def test_42_the_undo_drops_nothing_of_others(place, way):
    """2000 datagrams that the fault does not mean, one each 2 ms, across the act and the undo."""
    naive = custom(
        "tc qdisc add dev near0 root handle 1: prio && tc qdisc add dev near0 parent 1:3 handle 30: netem loss 100%",
        GONE, "tc qdisc show dev near0 | grep -q 'loss 100%'", netem_packets("near0", "drops"),
    )  # fmt: skip
    ours = {"kind": "net.loss", "device": "near0", "remote_port": 9, "protocol": "udp", "loss": "100%"}
    place.run(f"rm -f /tmp/got /tmp/sent; setsid {ON_FAR} {TOOL} sink 9200 /tmp/got > /dev/null 2>&1 & "
              f"echo $! > /tmp/sink.pid; {until('[ -s /tmp/got ]')}")  # fmt: skip
    place.run(f"setsid {TOOL} flow {FAR} 9200 2000 2 /tmp/sent > /dev/null 2>&1 &")
    trial = place.attempt(naive if way == "naive" else ours, under=[f"{TOOL} datagrams {FAR} 9 2 1"])
    assert trial.receipt.clean
    place.run(until("[ -s /tmp/sent ]"))
    sent, got = int(place.run("cat /tmp/sent")), int(place.run(settled("/tmp/got")).split()[0])
    place.run("kill $(cat /tmp/sink.pid)")
    assert sent == 2000
    if way == "naive":
        assert judged(trial) == "never_acted", "nothing was steered into the third band"
        assert sent - got < 100
    else:
        trial.proven()
        assert got == sent


@WAYS
def test_54_a_delay_that_also_loses(place, way):
    burst = f"{TOOL} burst {FAR} 9000 3000 {5 if way == 'naive' else 20}"
    if way == "naive":
        naive = custom("tc qdisc add dev near0 root netem delay 1s", GONE, SHOWN.replace("200ms", "1s"),
                       netem_packets("near0"))  # fmt: skip
        drops = netem_packets("near0", "drops")
        trial = place.attempt(naive, under=[burst, drops])
        assert int(trial.said[1]) > 500, "netem's own queue holds 1000 packets"
        assert int(trial.said[0].split()[1]) < 2500
        return
    trial = place.attempt({**DELAY, "delay": "1s"}, under=[burst])
    trial.proven()
    assert trial.said == ["back 3000\n"]
    assert any("let through 3000 packets, 0 drops" in note for note in trial.receipt.notes)
    assert not any("not asked for" in note for note in trial.receipt.notes)


@WAYS
def test_55_a_request_pays_for_every_round_trip(place, way):
    under = [ping(FAR, 3), connect(FAR), f"{TOOL} transfer {FAR} 9000 100"]
    trial = place.attempt({**DELAY, "delay": "100ms", "direction": "both" if way == "naive" else "out"}, under=under)
    trial.proven()
    pinged, connected, asked = rtt(trial.said[0]), how(trial.said[1])[1], how(trial.said[2])[1]
    once = 200 if way == "naive" else 100
    assert pinged >= once - 1
    assert connected >= once - 1
    assert asked >= 2 * once - 2, "a connection and a request"
    assert any("a new TCP connection with one request pays for two round trips" in s for s in trial.fault.cannot_know())


@WAYS
def test_57_faults_that_overlap(place, way):
    counter = netem_packets("near0")
    delay = "tc qdisc add dev near0 root netem delay 100ms"
    both = "tc qdisc show dev near0 | grep -q 'delay 100ms.*loss 10%'"
    if way == "naive":
        second = place.attempt(custom(f"{delay} && tc qdisc add dev near0 root netem loss 10%", GONE, both, counter))
        assert judged(second) == "apply_failed"
        assert "Exclusivity flag on" in second.stop
        silent = place.attempt(
            custom(f"{delay} && tc qdisc replace dev near0 root netem loss 10%", GONE, both, counter)
        )
        assert judged(silent) == "not_in_force"
        return
    late, lossy = faults.parse({**DELAY, "delay": "100ms"}), faults.parse({"kind": "net.loss", "loss": "10%",
                                                                           "device": "near0"})  # fmt: skip
    assert "use net.impair" in str(late.conflicts(lossy))
    merged = {"kind": "net.impair", "device": "near0", "delay": "100ms", "loss": "30%"}
    trial = place.attempt(merged, under=[MANY])
    trial.proven()
    assert 13 <= lost(trial.said[0]) <= 47
    assert rtt(trial.said[0]) >= 99
    foreign = "tc qdisc add dev near0 root handle 7: netem delay 30ms"
    place.run(foreign)
    beside = place.attempt({**DELAY, "delay": "100ms"}, under=[ping(FAR, 3)])
    kept = place.run("tc qdisc show dev near0")
    place.run(GONE)
    beside.proven()
    assert rtt(beside.said[0]) >= 129
    assert "qdisc netem 7: root" in kept
