"""Clocks: other programs in the guest see what the receipt says, the host sees nothing, and all is put right."""

import json
import time

import pytest

from tests.guest.faults.fault_trial import Bench

WATCH = (
    "python3 -c 'import time\n"
    "for _ in range({n}): print(time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime(time.CLOCK_BOOTTIME), "
    "time.clock_gettime(time.CLOCK_MONOTONIC_RAW)); time.sleep({s})'"
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
    """Seconds that the guest's wall clock is off the host's."""
    return abs(float(bench.run("date +%s.%N")) - time.time())


@pytest.mark.parametrize("by", ["+5%", "-150ppm", "-9.87%"])
def test_drift_is_the_rate_against_the_raw_clock(bench, by):
    trial = bench.attempt({"kind": "clock.drift", "by": by}, under=[WATCH.format(n=2, s=1.2)])
    trial.proven()
    first, last = rows(trial.said[0])
    raw = last[2] - first[2]
    wanted = {"+5%": 0.05, "-150ppm": -150e-6, "-9.87%": -0.0987}[by]
    for clock in (0, 1):
        assert (last[clock] - first[clock]) / raw - 1 == pytest.approx(wanted, rel=0.1, abs=1e-4)
    assert right(bench) < 1


def test_a_slow_clock_creeps_and_a_frozen_one_stands(bench):
    for speed, step in (("50%", "20ms"), ("0%", "10ms")):
        trial = bench.attempt({"kind": "clock.slow", "speed": speed, "step": step}, under=[WATCH.format(n=2, s=1)])
        trial.proven()
        first, last = rows(trial.said[0])
        share = (last[0] - first[0]) / (last[1] - first[1])
        assert share == pytest.approx(float(speed[:-1]) / 100, abs=0.1)
        assert trial.acted >= 30
    assert right(bench) < 1


def test_a_strobe_goes_there_and_back(bench):
    trial = bench.attempt({"kind": "clock.strobe", "by": "-10m", "period": "200ms"}, under=[WATCH.format(n=40, s=0.02)])
    trial.proven()
    seen = offsets(trial.said[0])
    there = [offset for offset in seen if offset < max(seen) - 300]
    assert 0.2 < len(there) / len(seen) < 0.8
    assert max(seen) - min(seen) == pytest.approx(600, abs=1)
    assert trial.acted >= 8
    assert right(bench) < 1


@pytest.mark.parametrize("second", ["insert", "delete"])
def test_a_leap_second_is_repeated_or_left_out(bench, second):
    trial = bench.attempt({"kind": "clock.leap", "second": second}, under=[WATCH.format(n=100, s=0.05)])
    trial.proven()
    seen = offsets(trial.said[0])
    moved = {"insert": -1, "delete": 1}[second]
    assert seen[-1] - seen[0] == pytest.approx(moved, abs=0.05)
    walls = [int(wall) % 86400 for wall, _, _ in rows(trial.said[0])]
    # a deleted second is the last one of the day; an inserted one is 23:59:59 a second time
    assert (86399 in walls) is (second == "insert")
    assert 0 in walls
    assert right(bench) < 1


def test_what_one_call_cannot_do_ends_by_itself_when_its_mark_is_gone(bench):
    trial = bench.attempt(
        {"kind": "clock.strobe", "by": "1h", "period": "50ms"},
        under=["rm /run/stormcell/marks/clock-fault.hand; sleep 0.5; pgrep -c sc-clock; true"],
    )
    assert trial.said == ["0\n"]
    assert trial.receipt.in_force is False
    assert trial.receipt.clean
    assert right(bench) < 1


def test_a_time_daemon_is_held_and_goes_on_after_the_undo(bench):
    bench.put("/root/chronyd", DAEMON)
    bench.run("chmod +x /root/chronyd")
    spec = {"kind": "clock.jump", "by": "-1h", "stop_daemons": True}
    state = "cut -d' ' -f3 /proc/$(pgrep -x chronyd)/stat"
    trial = bench.attempt(spec, loads=["exec /root/chronyd"], under=[f"sleep 0.5; {state}"], settle=0.5)
    trial.proven()
    held = json.loads(trial.receipt.readings["during"].text("watch"))["held"]
    assert [process["comm"] for process in held] == ["chronyd"]
    assert trial.said == ["T\n"]
    assert "held until the undo: chronyd" in trial.receipt.notes


def test_the_host_and_another_machine_keep_their_time(bench, template):
    other = Bench(template)
    try:
        before = right(other)
        host = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        trial = bench.attempt({"kind": "clock.jump", "by": "2h"}, under=["sleep 0.2"])
        trial.proven()
        assert abs(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - host) < 0.05
        assert abs(right(other) - before) < 0.5
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
    look = "sleep 0.4; cat /tmp/up; cut -d' ' -f1 /proc/uptime"
    fault = {"kind": "clock.namespace", "service": "beat", "monotonic": "10d", "boottime": "20d"}
    again = "kill -9 $(cat /sys/fs/cgroup/services/beat/cgroup.procs) 2>/dev/null; sleep 2; " + look
    trial = bench.attempt(fault, under=[look, again])
    trial.proven()
    for said in trial.said:  # also when the supervisor has started it anew
        inside, outside = (float(line) for line in said.splitlines())
        assert inside - outside == pytest.approx(20 * 86400, abs=5)
    inside, outside = (float(line) for line in bench.run(look).splitlines())
    assert abs(inside - outside) < 5
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
    assert inside[0] - outside[0] == pytest.approx(86400, abs=5)
    assert inside[1] - outside[1] == pytest.approx(0, abs=5)


def test_no_clock_falls_below_zero(bench):
    trial = bench.attempt({"kind": "clock.namespace", "monotonic": "-30d"})
    assert "the kernel refuses a time namespace with these offsets" in trial.stop
    assert trial.receipt.in_force is not True
    assert bench.run("ls -A /run/stormcell/timens /run/stormcell/marks").count("fault") == 0
