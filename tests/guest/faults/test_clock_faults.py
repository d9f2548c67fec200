"""Clocks: other programs in the guest see what the receipt says, the host sees nothing, and all is put right."""

import json
import time
from functools import partial
from itertools import pairwise
from statistics import median

import pytest

from tests.guest.faults.fault_trial import Bench
from tests.guest.faults.resource_loads import there
from tests.guest.faults.resource_watch import in_time

# three clocks at one moment: of some looks the quickest, since an emulated CPU can stop between two reads
WATCH = (
    "python3 -c 'import time\ng = time.clock_gettime\n"
    "def look():\n"
    "  first, wall, boot = g(time.CLOCK_MONOTONIC_RAW), g(time.CLOCK_REALTIME), g(time.CLOCK_BOOTTIME)\n"
    "  last = g(time.CLOCK_MONOTONIC_RAW)\n"
    "  return last - first, wall, boot, (first + last) / 2\n"
    "for _ in range({n}): print(*min(look() for _ in range(10))[1:], flush=True); time.sleep({s})'"
)

DAEMON = """#!/usr/bin/python3
import time
offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
while True:
    time.sleep(0.2)
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_BOOTTIME) + offset)
"""


def rows(said):
    return [[float(word) for word in line.split()] for line in said.splitlines()]


def offsets(said):
    return [wall - boot for wall, boot, _ in rows(said)]


def right(bench):
    """Seconds that the guest's wall clock is off the host's, at least: the answer may have taken its time."""
    before = time.time()
    inside = float(bench.run("date +%s.%N"))
    return max(0.0, before - inside, inside - time.time())


def host_offset():
    """The host's wall clock against the time since its boot, by the quickest of some looks."""
    looks = []
    for _ in range(10):
        first, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
        looks.append((time.clock_gettime(time.CLOCK_BOOTTIME) - first, wall - first))
    return min(looks)[1]


@pytest.mark.parametrize("by", ["+5%", "-150ppm", "-9.87%"])
def test_drift_is_the_rate_against_the_raw_clock(bench, by):
    trial = in_time(lambda: bench.attempt({"kind": "clock.drift", "by": by}, under=[WATCH.format(n=2, s=1.2)]))
    trial.proven()
    first, last = rows(trial.said[0])
    raw = last[2] - first[2]
    wanted = {"+5%": 0.05, "-150ppm": -150e-6, "-9.87%": -0.0987}[by]
    for clock in (0, 1):
        assert (last[clock] - first[clock]) / raw - 1 == pytest.approx(wanted, rel=0.1, abs=1e-4)
    assert right(bench) < 1


def test_a_slow_clock_creeps_and_a_frozen_one_stands(bench):
    for speed, step in (("50%", "20ms"), ("0%", "10ms")):
        spec = {"kind": "clock.slow", "speed": speed, "step": step}
        trial = in_time(partial(bench.attempt, spec, under=[WATCH.format(n=6, s=0.2)]))
        trial.proven()
        shares = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(rows(trial.said[0]))]
        assert median(shares) == pytest.approx(float(speed[:-1]) / 100, abs=0.1), shares
        assert trial.acted >= 20
    assert right(bench) < 1


def test_a_strobe_goes_there_and_back(bench):
    trial = bench.attempt({"kind": "clock.strobe", "by": "-10m", "period": "200ms"}, under=[WATCH.format(n=40, s=0.02)])
    trial.proven()
    seen = offsets(trial.said[0])
    there = [offset for offset in seen if offset < max(seen) - 300]
    assert 0.2 < len(there) / len(seen) < 0.8
    assert max(seen) - min(seen) == pytest.approx(600, abs=1)
    assert trial.acted >= 6
    assert right(bench) < 1


@pytest.mark.parametrize("second", ["insert", "delete"])
def test_a_leap_second_is_repeated_or_left_out(bench, second):
    midnight = "until [ $(($(date -u +%s) % 86400)) -lt 43200 ]; do sleep 0.1; done; sleep 0.5"
    watching = [WATCH.format(n=9999, s=0.05)]
    trial = bench.attempt({"kind": "clock.leap", "second": second}, loads=watching, settle=0.5, under=[midnight])
    trial.proven()
    (load,) = (event for event in trial.events if event["event"] == "load" and event["state"] == "stopped")
    steps = [later - earlier for earlier, later in pairwise(offsets(load["out"]))]
    # to just before midnight and back again are larger ones
    (step,) = (step for step in steps if 0.5 < abs(step) < 2)
    assert step == pytest.approx({"insert": -1, "delete": 1}[second], abs=0.05)
    walls = [int(wall) % 86400 for wall, _, _ in rows(load["out"])]
    longest = max(later[1] - earlier[1] for earlier, later in pairwise(rows(load["out"])))
    # a deleted second is the last one of the day; an inserted one is 23:59:59 a second time
    assert (86399 in walls) is (second == "insert") or longest > 1
    assert right(bench) < 1


def test_what_one_call_cannot_do_ends_by_itself_when_its_mark_is_gone(bench):
    trial = bench.attempt(
        {"kind": "clock.strobe", "by": "1h", "period": "50ms"},
        under=[
            "pgrep -c sc-clock; rm /run/stormcell/marks/clock-fault.hand; while pgrep -c sc-clock; do sleep 0.1; done"
        ],
    )
    assert trial.said[0].split()[0] == "1"
    assert trial.said[0].split()[-1] == "0"
    assert trial.receipt.in_force is False
    assert trial.receipt.clean
    assert right(bench) < 1


def test_a_time_daemon_is_held_and_goes_on_after_the_undo(bench):
    bench.put("/root/chronyd", DAEMON)
    bench.run("chmod +x /root/chronyd")
    spec = {"kind": "clock.jump", "by": "-1h", "stop_daemons": True}
    state = "cut -d' ' -f3 /proc/$(pgrep -x chronyd)/stat"
    trial = bench.attempt(spec, loads=["exec /root/chronyd"], under=[f"sleep 0.5; {state}"], ready=there("chronyd"))
    trial.proven()
    held = json.loads(trial.receipt.readings["during"].text("watch"))["held"]
    assert [process["comm"] for process in held] == ["chronyd"]
    assert trial.said == ["T\n"]
    assert "held until the undo: chronyd" in trial.receipt.notes


def test_the_host_and_another_machine_keep_their_time(bench, template):
    other = Bench(template)
    try:
        before = right(other)
        host = host_offset()
        trial = bench.attempt({"kind": "clock.jump", "by": "2h"}, under=["sleep 0.2"])
        trial.proven()
        assert abs(host_offset() - host) < 0.05
        assert right(other) < before + 0.5
    finally:
        other.close()


def test_a_new_process_is_in_the_other_zone_and_the_files_come_back(bench):
    files = "ls -i --time-style=full-iso -l /etc/localtime /etc/timezone"
    before = bench.run(files)
    trial = bench.attempt({"kind": "clock.zone", "zone": "Asia/Kolkata"}, under=["date +%z", "date -u +%z"])
    trial.proven()
    assert trial.said == ["+0530\n", "+0000\n"]
    assert bench.run(files) == before
    assert ".stormcell" not in bench.run("ls -A /etc")


SERVICE = "while true; do cut -d' ' -f1 /proc/uptime > /tmp/up.new; mv /tmp/up.new /tmp/up; sleep 0.1; done"


def test_a_service_lives_in_another_monotonic_time_until_the_undo(bench):
    spec = [{"name": "beat", "command": ["/bin/sh", "-c", SERVICE]}]
    bench.run("mkdir -p /etc/stormcell")
    bench.put("/etc/stormcell/services.json", json.dumps(spec))
    bench.run("stormcell-guest service load")
    look = "rm -f /tmp/up; until [ -e /tmp/up ]; do sleep 0.1; done; cat /tmp/up; cut -d' ' -f1 /proc/uptime"
    fault = {"kind": "clock.namespace", "service": "beat", "monotonic": "10d", "boottime": "20d"}
    again = "kill -9 $(cat /sys/fs/cgroup/services/beat/cgroup.procs) 2>/dev/null; " + look
    trial = bench.attempt(fault, under=[look, again])
    trial.proven()
    for said in trial.said:  # also when the supervisor has started it anew
        inside, outside = (float(line) for line in said.splitlines())
        assert inside - outside == pytest.approx(20 * 86400, abs=60)
    inside, outside = (float(line) for line in bench.run(look).splitlines())
    assert abs(inside - outside) < 60
    assert "timens" not in bench.run("cat /proc/self/mountinfo")
    bench.run("stormcell-guest service stop beat; rm /etc/stormcell/services.json")


def test_a_namespace_without_a_service_is_for_commands(bench):
    fault = {"kind": "clock.namespace", "monotonic": "1d"}
    mono = "python3 -c 'import time; print(time.monotonic(), time.time())'"
    trial = bench.attempt(fault, under=[f"stormcell-guest timens run fault {mono}; {mono}"])
    assert trial.receipt.in_force, trial.receipt.readings
    assert trial.receipt.clean
    assert trial.acted == 0
    inside, outside = ([float(word) for word in line.split()] for line in trial.said[0].splitlines())
    assert inside[0] - outside[0] == pytest.approx(86400, abs=60)
    assert inside[1] - outside[1] == pytest.approx(0, abs=60)


def test_no_clock_falls_below_zero(bench):
    trial = bench.attempt({"kind": "clock.namespace", "monotonic": "-30d"})
    assert "the kernel refuses a time namespace with these offsets" in trial.stop
    assert trial.receipt.in_force is not True
    assert bench.run("ls -A /run/stormcell/timens /run/stormcell/marks").count("fault") == 0
