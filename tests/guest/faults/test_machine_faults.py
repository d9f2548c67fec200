"""The host's acts on the machine: seen from inside, from the host, and gone afterwards."""

import json
import os
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.guest.faults.resource_watch import in_time

CARD = "cat /sys/class/net/eth0/operstate"
TICKS = "exec python3 -c 'import time\nwhile 1: print(time.monotonic(), time.time(), flush=True); time.sleep(0.05)'"


def test_a_pulled_cable_is_seen_in_the_guest_and_plugged_in_again(bench):
    trial = bench.attempt({"kind": "machine.link"}, under=[CARD, "ping -c 1 -W 1 10.0.2.2", "ping -c 1 -q 127.0.0.1"])
    trial.proven()
    assert trial.said[0] == "down\n"
    assert " 0% packet loss" not in trial.said[1]
    assert " 0% packet loss" in trial.said[2]
    assert bench.run(CARD) == "up\n"


def behind(bench):
    """Seconds that the guest's clock is behind the host's, by the quickest of five answers."""
    looks = []
    for _ in range(5):
        began = time.monotonic()
        inside = float(bench.run("cut -d' ' -f1 /proc/uptime"))
        took = time.monotonic() - began
        looks.append((took, began + took / 2 - inside))
    return min(looks)[1]


def paused(bench, **spec):
    """The trial of a pause of 2 s, and how much more the guest's clock is behind afterwards."""
    missed = 0.0

    def attempt():
        nonlocal missed
        before = behind(bench)
        fault = {"kind": "machine.pause", "for": "2s", "delay": "500ms", **spec}
        trial = bench.attempt(fault, loads=[TICKS], under=["sleep 1"])
        missed = behind(bench) - before
        return trial

    trial = in_time(attempt)
    trial.proven()
    return trial, missed


def gaps(trial, column: int) -> float:
    """The longest time between two ticks."""
    (load,) = (event for event in trial.events if event["event"] == "load" and event["state"] == "stopped")
    moments = [float(line.split()[column]) for line in load["out"].splitlines()]
    return max(later - earlier for earlier, later in pairwise(moments))


def test_a_pause_with_its_clocks_is_not_seen_inside_but_by_the_host(bench):
    trial, missed = paused(bench)
    assert missed == pytest.approx(2, abs=0.7), "what nobody inside could see"
    events = json.loads(trial.receipt.readings["after"].text("pause"))["events"]
    assert [event["event"] for event in events] == ["STOP", "RESUME"]


def test_a_pause_without_its_clocks_is_a_gap_for_everybody_inside(bench):
    trial, missed = paused(bench, clock="runs")
    assert missed == pytest.approx(0, abs=0.7)
    assert gaps(trial, 0) > 1.8
    assert gaps(trial, 1) > 1.8


def cpu_seconds(bench) -> float:
    """That the host's kernel has given to the machine."""
    stat = Path(f"/proc/{bench.sandbox.machine.identity.pid}/stat").read_text()
    return sum(int(ticks) for ticks in stat.rpartition(")")[2].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def test_a_slow_machine_does_less_in_the_same_time(bench):
    count = "python3 -c 'import time\nn, end = 0, time.monotonic() + 2\nwhile time.monotonic() < end: n += 1\nprint(n)'"
    given = cpu_seconds(bench)
    done = int(bench.run(count))
    speed = done / (cpu_seconds(bench) - given)
    trial = in_time(lambda: bench.attempt({"kind": "machine.slow", "speed": "25%"}, under=[count]), 5)
    trial.proven()
    # of what it does in so much CPU time, since the host may have had less than that for it before
    assert int(trial.said[0]) < 0.5 * 2 * speed
    share = re.search(r"ran for ([\d.]+)%", trial.receipt.notes[0])
    assert share
    assert 15 < float(share[1]) < 40
    assert trial.acted > 20


def test_an_act_that_cannot_be_done_ends_the_run(bench):
    bench.run("ip link set eth0 down")
    try:
        trial = bench.attempt({"kind": "machine.link"})
        assert trial.receipt.in_force is False
        assert not trial.receipt.acted
    finally:
        bench.run("ip link set eth0 up")
