"""The other queue faults, several at once on one device, host names, links and connections."""

import re

import pytest

from stormcell import faults
from stormcell.engine.compile import planned
from stormcell.engine.load import disturbance
from stormcell.engine.receipts import receipt
from stormcell.spec.plan import ApplyStep, NeedsStep, Plan, RunStep, Step, UndoStep
from tests.guest.faults.fault_trial import carried_out, shell, until
from tests.guest.faults.network_said import TOOL, connect, how, lost, ping, rtt, settled

ICMP = {"device": "lo", "protocol": "icmp"}
PORT = {"device": "lo", "remote_port": 9000}


@pytest.fixture(scope="module")
def guest(bench):
    bench.run(f"setsid {TOOL} serve 9000 > /dev/null 2>&1 & setsid {TOOL} serve 9001 > /dev/null 2>&1 &")
    for port in (9000, 9001):
        bench.run(until(f"{connect('::1', port)} | grep -q OK"))
    return bench


def numbered(guest, spec, count=200):
    """The fault, and what of `count` numbered datagrams arrived over lo: (different ones, all, overtaken)."""
    trial = guest.attempt(
        {**spec, "device": "lo", "remote_port": 9200, "protocol": "udp"},
        setup=["rm -f /tmp/got"],
        loads=[f"{TOOL} sink 9200 /tmp/got"],
        ready="[ -s /tmp/got ]",
        under=[f"{TOOL} flow 127.0.0.1 9200 {count} 0 /tmp/sent; {settled('/tmp/got')}"],
    )
    trial.proven()
    different, every, overtaken, _ = map(int, trial.said[0].split())
    return trial, different, every, overtaken


def test_every_nth_is_lost_and_no_other(guest):
    trial, different, _, _ = numbered(guest, {"kind": "net.loss", "every": 4})
    assert different == 150
    assert trial.acted == 50


@pytest.mark.parametrize(
    ("spec", "least", "most"),
    [
        # in a burst for 1/3 of the time, p / (p + r): 667 with a standard deviation of 50, for bursts are long
        ({"burst_start": "10%", "burst_end": "20%"}, 400, 930),
        ({"p13": "10%", "p31": "20%", "p14": "1%"}, 400, 950),
        ({"loss": "30%"}, 490, 710),  # 600, with one of 20
    ],
)
def test_loss_by_chance_and_in_bursts(guest, spec, least, most):
    trial, different, _, _ = numbered(guest, {"kind": "net.loss", **spec}, 2000)
    assert least <= 2000 - different <= most
    assert trial.acted == 2000 - different


def test_some_arrive_twice(guest):
    trial, different, every, _ = numbered(guest, {"kind": "net.duplicate", "duplicate": "25%"})
    assert different == 200
    assert every == 200 + trial.acted
    assert 15 <= trial.acted <= 85


def test_some_arrive_damaged_and_are_refused(guest):
    trial, different, _, _ = numbered(guest, {"kind": "net.corrupt", "corrupt": "50%"})
    assert 60 <= trial.acted <= 140
    assert 200 - trial.acted <= different <= 195


def test_some_overtake_others(guest):
    trial, different, every, overtaken = numbered(
        guest, {"kind": "net.reorder", "delay": "300ms", "reorder": "100%", "gap": 5}
    )
    assert (different, every) == (200, 200)
    assert trial.acted == 40, "every fifth goes ahead"
    assert overtaken > 100


def test_packets_leave_in_slots(guest):
    spec = {"kind": "net.slot", **ICMP, "every": "200ms", "slot_packets": 8}
    trial = guest.attempt(spec, under=["ping -c 10 -i 0.05 -W 3 127.0.0.1"])
    trial.proven()
    times = [float(t) for t in re.findall(r"time=([\d.]+)", trial.said[0])]
    assert max(times) > 90
    assert max(times) - min(times) > 40, "who comes early waits longer"


def test_a_wire_takes_its_time_for_every_packet(guest):
    """84 bytes on 8 kbit/s: at least 84 ms each, both ways; with 40 more on the wire 124 ms."""
    spec = {"kind": "net.rate", **ICMP, "rate": "8kbit", "shaper": "netem"}
    plain = guest.attempt(spec, under=[ping(count=3, every=0.4)])
    plain.proven()
    assert 165 <= rtt(plain.said[0]) < 245
    more = guest.attempt({**spec, "packet_overhead": 40, "queue_packets": 20}, under=[ping(count=2)])
    more.proven()
    assert rtt(more.said[0]) >= 245


def test_several_things_happen_to_the_same_packets(guest):
    spec = {
        "kind": "net.impair",
        "delay": "30ms",
        "loss": "20%",
        "duplicate": "20%",
        "reorder": "20%",
        "rate": "10mbit",
    }
    trial, different, every, overtaken = numbered(guest, spec)
    assert 120 <= different <= 195
    assert every > different
    assert overtaken
    assert trial.acted >= 200
    (parts,) = [note for note in trial.receipt.notes if "sent ahead" in note]
    counts = [int(n) for n in re.findall(r"(\d+) (?:lost|doubled|sent)", parts)]
    assert all(counts), parts


def test_an_amount_changes_while_the_fault_is_in_force(guest):
    first, second = ({"kind": "net.delay", **ICMP, "delay": d} for d in ("50ms", "150ms"))
    change = faults.parse(first).change(faults.parse(second))
    assert change is not None
    text = change[0].stdin.strip()
    trial = guest.attempt(first, under=[ping(), f"echo '{text}' | tc -batch -", ping()])
    assert 99 <= rtt(trial.said[0]) < 290
    assert rtt(trial.said[2]) >= 299
    assert trial.receipt.clean


def test_two_on_one_device_and_one_is_taken_away(guest):
    """Beside a qdisc of somebody else, which stays."""
    items = [
        disturbance("late", 1, {"kind": "net.delay", **PORT, "delay": "500ms", "direction": "both"}),
        disturbance("lossy", 2, {"kind": "net.loss", **ICMP, "loss": "100%", "direction": "in"}),
    ]
    looks = [shell(connect(times=2)), shell(ping(wait=1)), shell("tc qdisc show dev lo | head -1")]
    steps: list[Step] = [NeedsStep(id=f"needs.{item.id}", phase="setup", fault=item.id) for item in items]
    steps += [RunStep(id="foreign", phase="setup", command=shell("tc qdisc add dev lo root handle 7: netem delay 1ms"))]
    order: list[Step] = [ApplyStep(id=f"apply.{item.id}", phase="fault", fault=item.id) for item in items]
    order += [UndoStep(id=f"undo.{item.id}", phase="undo", fault=item.id) for item in items]
    for number, step in enumerate(order):
        steps.append(step)
        steps += [RunStep(id=f"under.{number}.{n}", phase="under", command=look) for n, look in enumerate(looks)]
    plan = Plan(experiment="two", template="base", deadline_s=240, probes={}, steps=tuple(steps),
                faults={item.id: planned(item) for item in items})  # fmt: skip
    events = guest._runner.run(carried_out(guest.sandbox, plan))
    guest.run("tc qdisc del dev lo root")
    said = {e["step"]: e["out"] for e in events if e["event"] == "output" and e.get("step", "").startswith("under.")}
    slow = [how(said[f"under.{n}.0"])[1] >= 499 for n in range(4)]
    dark = [lost(said[f"under.{n}.1"]) == 100 for n in range(4)]
    assert slow == [True, True, False, False]
    assert dark == [False, True, True, False]
    assert all("qdisc netem 7: root" in said[f"under.{n}.2"] for n in range(4))
    for item in items:
        told = receipt(item, plan, events)
        assert (told.in_force, bool(told.acted), told.clean, told.undo_ok) == (True, True, True, True), told.notes


def test_a_name_is_watched_while_the_fault_is_in_force(guest):
    guest.run("cp /etc/hosts /tmp/hosts; echo '127.0.0.9 moved.test' >> /etc/hosts")
    seen = until("stormcell-guest hosts show fault-hosts | grep -q 127.0.0.8")
    move = f"echo '127.0.0.8 moved.test' >> /etc/hosts; {seen}"
    spec = {"kind": "net.drop", "device": "lo", "host": "moved.test", "remote_port": 9000}
    under = [connect("127.0.0.9", timeout=1), connect("127.0.0.8"), move, connect("127.0.0.8", timeout=1)]
    trial = guest.attempt(spec, under=under)
    guest.run("cp /tmp/hosts /etc/hosts")
    trial.proven()
    assert [said.split()[0] for said in (trial.said[0], trial.said[1], trial.said[3])] == ["TIMEOUT", "OK", "TIMEOUT"]
    assert "moved.test meant 127.0.0.9, 127.0.0.8" in trial.receipt.notes
    assert guest.run("ls /run/stormcell/marks; ls /sys/fs/cgroup/stormcell/faults 2>/dev/null; true").strip() == ""


def talks(seconds, *ports):
    """Connections that are open at the act and end with /tmp/enough, at the latest when nothing came for so long."""
    return {
        "setup": ["rm -f /tmp/enough /tmp/talk*"],
        "loads": [f"{TOOL} keep_open 127.0.0.1 {port} {seconds} /tmp/enough > /tmp/talk{port} 2>&1" for port in ports],
        "ready": " && ".join(f"ss -Htn state established dport = {port} | grep -q ." for port in ports),
    }


def ended(*ports):
    """Shell text: how these connections came to their end."""
    files = " ".join(f"/tmp/talk{port}" for port in ports)
    return f"touch /tmp/enough; for file in {files}; do {until('[ -s $file ]')}; cat $file; done"


def test_connections_that_are_open_or_new(guest):
    new = guest.attempt({"kind": "net.drop", **PORT, "connections": "new"}, **talks(20, 9000),
                        under=[connect(timeout=1), ended(9000)])  # fmt: skip
    new.proven()
    assert [how(said)[0] for said in new.said] == ["TIMEOUT", "OK"]
    opened = guest.attempt({"kind": "net.drop", **PORT, "connections": "established"}, **talks(3, 9000),
                           under=[connect(), ended(9000)])  # fmt: skip
    opened.proven()
    assert [how(said)[0] for said in opened.said] == ["OK", "TIMEOUT"]


def test_a_link_goes_down_and_comes_back_with_all_that_it_had(guest):
    guest.run(
        "ip route add 192.0.2.0/24 via 10.0.2.2; ip -6 route add 2001:db8::/32 via fec0::2 metric 77; "
        "ip addr add 2001:db8:1::5/64 dev eth0 nodad; ip neigh add 10.0.2.77 lladdr 02:00:00:00:00:01 dev eth0"
    )
    show = "ip route; ip -6 route; ip neigh show nud permanent; ip -br addr show eth0"
    before = sorted(guest.run(show).split())
    trial = guest.attempt({"kind": "net.down"}, under=["ping -c 1 -W 1 10.0.2.2; ping -6 -c 1 -W 1 fec0::2", ping()])
    trial.proven()
    assert trial.said[0].count("Network is unreachable") == 2
    assert lost(trial.said[1]) < 100, "lo is another device"
    assert sorted(guest.run(show).split()) == before
    assert lost(guest.run(ping("10.0.2.2"))) < 100
    assert any("operational state up before and down under the fault" in note for note in trial.receipt.notes)
    guest.run(
        "ip route del 192.0.2.0/24; ip addr del 2001:db8:1::5/64 dev eth0; ip -6 route del 2001:db8::/32; "
        "ip neigh del 10.0.2.77 dev eth0"
    )


def test_open_connections_are_cut_and_others_stay(guest):
    trial = guest.attempt(
        {"kind": "net.cut", "remote_port": 9000, "address": "127.0.0.0/8"}, **talks(20, 9000, 9001),
        under=[connect(), ended(9000, 9001)],
    )  # fmt: skip
    trial.proven()
    assert trial.acted == 1
    assert trial.said[0].startswith("OK")
    cut, kept = (line.split()[0] for line in trial.said[1].splitlines())
    assert cut in ("ECONNABORTED", "ECONNRESET")
    assert kept == "OK"
    assert any("the kernel counted 2 resets" in note for note in trial.receipt.notes)


def test_after_all_that_nothing_is_left(guest):
    assert guest.run("nft list ruleset; ls -A /run/stormcell/marks").strip() == ""
    assert not re.search(r"\bsc\d", guest.run("ip -br link"))
    assert "clsact" not in guest.run("tc qdisc show")
