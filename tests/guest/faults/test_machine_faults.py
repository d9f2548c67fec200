"""The host's acts on the machine: seen from inside, from the host, and gone afterwards."""

import json
import re
import time
from itertools import pairwise

CARD = "cat /sys/class/net/eth0/operstate"
TICKS = "python3 -c 'import time\nfor _ in range(60): print(time.monotonic(), time.time()); time.sleep(0.05)'"


def test_a_pulled_cable_is_seen_in_the_guest_and_plugged_in_again(bench):
    trial = bench.attempt({"kind": "machine.link"}, under=[CARD, "ping -c 1 -W 1 10.0.2.2", "ping -c 1 -q 127.0.0.1"])
    trial.proven()
    assert trial.said[0] == "down\n"
    assert " 0% packet loss" not in trial.said[1]
    assert " 0% packet loss" in trial.said[2]
    assert bench.run(CARD) == "up\n"


def gaps(said: str, column: int) -> float:
    moments = [float(line.split()[column]) for line in said.splitlines()]
    return max(later - earlier for earlier, later in pairwise(moments))


def test_a_pause_with_its_clocks_is_not_seen_inside_but_by_the_host(bench):
    began = time.monotonic()
    trial = bench.attempt({"kind": "machine.pause", "for": "2s", "delay": "1500ms"}, under=[TICKS])
    trial.proven()
    assert time.monotonic() - began > 5
    assert gaps(trial.said[0], 0) < 1.5
    events = json.loads(trial.receipt.readings["after"].text("pause"))["events"]
    assert [event["event"] for event in events] == ["STOP", "RESUME"]


def test_a_pause_without_its_clocks_is_a_gap_for_everybody_inside(bench):
    trial = bench.attempt({"kind": "machine.pause", "for": "2s", "clock": "runs", "delay": "1500ms"}, under=[TICKS])
    trial.proven()
    assert 1.8 < gaps(trial.said[0], 0) < 4
    assert 1.8 < gaps(trial.said[0], 1) < 4


def test_a_slow_machine_does_less_in_the_same_time(bench):
    count = "python3 -c 'import time\nn, end = 0, time.monotonic() + 2\nwhile time.monotonic() < end: n += 1\nprint(n)'"
    full = int(bench.run(count))
    trial = bench.attempt({"kind": "machine.slow", "speed": "25%"}, under=[count])
    trial.proven()
    assert int(trial.said[0]) < 0.6 * full
    share = re.search(r"ran for ([\d.]+)%", trial.receipt.notes[0])
    assert share
    assert 20 < float(share[1]) < 30
    assert trial.acted > 20


def test_an_act_that_cannot_be_done_ends_the_run(bench):
    bench.run("ip link set eth0 down")
    try:
        trial = bench.attempt({"kind": "machine.link"})
        assert trial.receipt.in_force is False
        assert not trial.receipt.acted
    finally:
        bench.run("ip link set eth0 up")
