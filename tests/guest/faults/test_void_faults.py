"""Faults that must not count: not applied, in force but idle, undone by somebody else. What is not ours stays."""

import pytest

PING = "ping -c 2 -i 0.1 -q 127.0.0.1"


def ends_early(trial, why):
    assert trial.receipt.apply_ok is not True
    assert trial.receipt.in_force is None
    assert why in trial.stop


@pytest.mark.parametrize(
    ("foreign", "show", "gone", "spec"),
    [
        ("tc qdisc add dev lo ingress", "tc qdisc show dev lo", "tc qdisc del dev lo ingress",
         {"kind": "net.rate", "device": "lo", "rate": "1mbit", "direction": "both"}),
        ("ip link add name sc1-out0 type dummy", "ip -br link show type dummy", "ip link del sc1-out0",
         {"kind": "net.delay", "device": "lo", "delay": "50ms"}),
        ("nft add table netdev stormcell_net_loss_1", "nft list tables", "nft delete table netdev stormcell_net_loss_1",
         {"kind": "net.loss", "device": "lo", "loss": "50%"}),
        ("ip link add name sc1-sink type dummy", "ip -br link show type dummy", "ip link del sc1-sink",
         {"kind": "net.drop", "device": "lo"}),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_not_overwritten(bench, foreign, show, gone, spec):
    bench.run(foreign)
    before = bench.run(show)
    trial = bench.attempt(spec, under=[PING])
    ends_early(trial, f"{spec['kind']}: ")
    if "sc1-" not in foreign and "stormcell" not in foreign:  # what bears our own name is ours to take away
        assert bench.run(show) == before
        bench.run(gone)
    assert "5c0" not in bench.run("tc qdisc show")
    assert "sc1-" not in bench.run("ip -br link")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"kind": "net.delay", "device": "eth7", "delay": "50ms"}, "there is no network device 'eth7'; there are "),
        ({"kind": "net.drop", "device": ["lo", "eth7"]}, "there is no network device 'eth7'"),
        ({"kind": "memory.limit", "service": "nosuch", "max": "64MiB"}, "there is no cgroup"),
        ({"kind": "cpu.limit", "service": "nosuch", "percent": "10%"}, "there is no cgroup"),
        ({"kind": "disk.fill", "path": "/nosuch"}, "/nosuch is no folder"),
        ({"kind": "disk.fill", "path": "/var", "user": "nosuch"}, "there is no user 'nosuch'"),
        ({"kind": "disk.inodes", "path": "/dev/pts"}, "no fixed number of inodes"),
        ({"kind": "process.kill", "name": "nosuch"}, "there is no process of name 'nosuch'"),
        ({"kind": "process.kill", "service": "nosuch"}, "there is no process of service 'nosuch'"),
        ({"kind": "process.kill", "service": "nosuch", "processes": "main"}, "there is no process of main 'nosuch'"),
        ({"kind": "process.kill", "pid": 4194000}, "there is no process of pid '4194000'"),
        ({"kind": "clock.jump", "by": "-18249d"}, None),
    ],
)
def test_a_target_that_is_not_there(bench, spec, why):
    trial = bench.attempt(spec, under=[PING])
    if why is None:  # 49.99 years back: in 2026 the kernel still takes it
        assert trial.receipt.clean
        return
    ends_early(trial, why)
    assert "5c0" not in bench.run("tc qdisc show")
    assert bench.run("nft list ruleset") == ""
    assert "sc1-" not in bench.run("ip -br link")
    assert "stormcell" not in bench.run("cat /sys/kernel/tracing/events/raw_syscalls/sys_exit/trigger")


def test_the_agent_cannot_be_the_victim(bench):
    agent = bench.run("head -1 /sys/fs/cgroup/stormcell/agent/cgroup.procs").strip()
    ends_early(bench.attempt({"kind": "process.kill", "pid": int(agent)}), "has to survive the fault")


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "net.delay", "device": "lo", "remote_port": 9, "delay": "50ms"},
        {"kind": "net.loss", "device": "lo", "remote_port": 9, "loss": "50%"},
        {"kind": "net.rate", "device": "lo", "rate": "1gbit"},
        {"kind": "net.loss", "device": "lo", "remote_port": 9, "every": 2},
        {"kind": "net.duplicate", "device": "lo", "remote_port": 9, "duplicate": "100%"},
        {"kind": "net.corrupt", "device": "lo", "remote_port": 9, "corrupt": "100%"},
        {"kind": "net.reorder", "device": "lo", "remote_port": 9, "reorder": "50%", "delay": "5ms"},
        {"kind": "net.slot", "device": "lo", "remote_port": 9, "every": "5ms"},
        {"kind": "net.impair", "device": "lo", "remote_port": 9, "loss": "50%", "delay": "5ms"},
        {"kind": "net.drop", "device": "lo", "remote_port": 9},
        {"kind": "net.reject", "device": "lo", "remote_port": 9},
        {"kind": "dns.drop"},
        {"kind": "disk.fill", "path": "/var/tmp"},
    ],
)
def test_in_force_but_nothing_crossed_it(bench, spec):
    trial = bench.attempt(spec, under=[PING])
    judged = trial.receipt
    assert (judged.apply_ok, judged.in_force, judged.clean) == (True, True, True)
    assert trial.acted == 0


@pytest.mark.parametrize(
    ("spec", "by_somebody"),
    [
        ({"kind": "net.delay", "device": "lo", "delay": "10ms"}, "tc qdisc del dev sc1-out0 root"),
        ({"kind": "net.delay", "device": "lo", "delay": "10ms", "remote_port": 9}, "ip link set sc1-out0 down"),
        (
            {"kind": "net.delay", "device": "lo", "delay": "10ms"},
            "tc qdisc change dev sc1-out0 root handle 5c01: netem delay 1ms",
        ),
        ({"kind": "net.loss", "device": "lo", "loss": "9%", "direction": "in"}, "tc qdisc del dev lo clsact"),
        ({"kind": "net.drop", "device": "lo"}, "nft flush ruleset"),
        ({"kind": "net.reject", "device": "lo"}, "nft flush chain inet stormcell_net_reject_1 out"),
        ({"kind": "clock.jump", "by": "1h"}, "date -s @$(($(date +%s) - 3600))"),
        ({"kind": "disk.fill", "path": "/var/tmp"}, "rm /var/tmp/.stormcell-fill-fault"),
    ],
)
def test_a_fault_that_somebody_takes_away_is_not_in_force(bench, spec, by_somebody):
    trial = bench.attempt(spec, under=[PING, by_somebody])
    assert trial.receipt.in_force is False
    assert trial.receipt.clean


def test_an_act_that_was_killed_half_way_is_undone(bench):
    """The filler of a run whose runner was killed is removed by the undo from the receipt alone."""
    bench.run("mkdir -p /mnt/half; mountpoint -q /mnt/half || mount -t tmpfs -o size=64m,nr_inodes=200k half /mnt/half")
    bench.run(
        "stormcell-guest fill inodes half /mnt/half 0 & "
        "while ! [ -e /mnt/half/.stormcell-inodes-half/10 ]; do sleep 0.01; done; kill -9 $!; wait $! 2>/dev/null; true"
    )
    assert bench.run("ls -A /mnt/half").strip() == ".stormcell-inodes-half"
    bench.run("stormcell-guest fill clear half /mnt/half")
    assert (
        bench.run("ls -A /mnt/half; grep -h stormcell /sys/kernel/tracing/events/raw_syscalls/sys_exit/trigger || true")
        == ""
    )
