"""Clock faults that nobody saw, or that somebody undid: reports 12 to 15.

12: https://github.com/wolfcw/libfaketime/issues/195, 13: https://github.com/chaos-mesh/chaos-mesh/issues/3400,
14: https://github.com/chaos-mesh/chaos-mesh/issues/2844, 15: https://github.com/jepsen-io/jepsen/pull/397
"""

import asyncio
import time
from itertools import pairwise

import pytest
from pydantic import ValidationError

from stormcell import faults
from stormcell.sandbox.api import AsyncSandbox
from tests.guest.faults.fault_trial import attempt
from tests.guest.faults.resource_loads import there
from tests.guest.faults.resource_watch import grows
from tests.guest.faults.test_clock_faults import DAEMON
from tests.guest.reports.static_clock import program, told

SHIM = "import time\n_true = time.time\ntime.time = lambda: _true() - 3600\n"
SHIFTED = "env PYTHONPATH=/root/shim python3"
SEEN = "-c 'import time; print(time.time(), time.clock_gettime(time.CLOCK_REALTIME))'"
STATIC = "/root/static_clock > /tmp/static_clock.out"
ROWS = "$(stat -c %s /tmp/static_clock.out 2> /dev/null || echo 0)"
MORE_ROWS = f"{grows(ROWS, 300)} > /dev/null"
"""Six or more: before the act, under it, and after the undo."""
BACK = {"kind": "clock.jump", "by": "-1h"}
OFFSET = 'python3 -c "import time; print(int((time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) / 600))"'


@pytest.fixture(scope="module")
def guest(bench):
    """A program without libraries, and a library that lies to whoever loads it."""
    bench.put("/root/shim/sitecustomize.py", SHIM)
    bench._runner.run(bench.sandbox.filesystem.write("/root/static_clock", program()))
    bench.run("chmod +x /root/static_clock")
    return bench


def in_one_process(tree):
    """The report's way: the clock is bent inside one process (and its children), by what it loads."""
    return {
        "kind": "custom.commands",
        "apply": f"{SHIFTED} -c 'import time; time.sleep(60)' > /dev/null 2>&1 & echo $! > /tmp/{tree}",
        "undo": f"kill -9 $(cat /tmp/{tree}); rm /tmp/{tree}",
        "shows": f"test -e /proc/$(cat /tmp/{tree})/exe",
        "counter": OFFSET,
    }


def static_rows(bench):
    return told(bench._runner.run(bench.sandbox.filesystem.read("/tmp/static_clock.out")))


def jumps(rows, clock):
    """How far a clock stepped against CLOCK_MONOTONIC, row by row, where it did."""
    offsets = [row[clock] - row[1] for row in rows]
    steps = [later - earlier for earlier, later in pairwise(offsets)]
    return [round(step) for step in steps if abs(step) > 60]


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_12_a_static_process_that_runs_already_sees_the_clock_of_the_kernel(guest, way):
    spec = in_one_process("library") if way == "naive" else BACK
    guest.run(f"rm -f /tmp/static_clock.out; setsid {STATIC} 2>&1 < /dev/null & {MORE_ROWS}")
    trial = guest.attempt(spec, under=[f"{MORE_ROWS}; {SHIFTED} {SEEN}"])
    guest.run(f"{MORE_ROWS}; pkill -x static_clock")
    rows = static_rows(guest)
    assert len(rows) > 5
    patched, direct = (float(word) for word in trial.said[0].split())
    if way == "naive":
        assert patched - direct == pytest.approx(-3600, abs=5), "what loads the library is bent, in one call of several"
        assert jumps(rows, 0) == []
        assert trial.acted == 0, "void: the machine's clock did not move"
    else:
        trial.proven()
        assert jumps(rows, 0) == jumps(rows, 2) == [-3600, 3600], "there at the act and back at the undo"
        monotonic = [row[1] for row in rows]
        assert monotonic == sorted(monotonic)
        assert monotonic[-1] - monotonic[0] < 60


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_13_a_new_process_sees_the_same_clock(guest, way):
    spec = in_one_process("tree") if way == "naive" else BACK
    before = float(guest.run("date +%s.%N")) - time.time()
    trial = guest.attempt(spec, under=["date +%s; cut -d. -f1 /proc/uptime"])
    wall = int(trial.said[0].split()[0])
    if way == "naive":
        assert abs(wall - time.time() - before) < 60, "a new process has the true time"
        assert trial.acted == 0, "void: it was in one tree of processes only"
    else:
        trial.proven()
        was, now = (int(trial.receipt.readings[label].text("offset")) for label in ("before", "during"))
        assert (now - was) / 1e9 == pytest.approx(-3600, abs=1)
        assert wall - int(trial.said[0].split()[1]) == pytest.approx(now / 1e9, abs=60)


UNSHARED = {
    "kind": "custom.commands",
    "apply": "unshare -T --monotonic 100000 sleep 77 > /dev/null 2>&1 & echo $! > /tmp/unshared; sleep 0.3",
    "undo": "kill $(cat /tmp/unshared); rm /tmp/unshared",
    "shows": "test -e /proc/$(cat /tmp/unshared)/exe",
    "counter": "test $(readlink /proc/$(cat /tmp/unshared || echo 1)/ns/time) = $(readlink /proc/1/ns/time); echo $?",
}
MONO = "python3 -c 'import time; print(time.monotonic(), time.time())'"


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_14_a_monotonic_offset_is_for_a_new_process_tree_and_says_so(guest, way):
    if way == "naive":
        trial = guest.attempt(UNSHARED, under=[f"unshare -T --monotonic 100000 {MONO}; {MONO}"])
        inside, outside = (float(line.split()[0]) for line in trial.said[0].splitlines())
        assert inside - outside == pytest.approx(0, abs=30), "without a fork nobody is inside"
        assert trial.receipt.in_force
        assert trial.acted == 0, "void: no process is in another time namespace"
        for clock, why in (("realtime", "use clock.jump"), ("tai", "no namespace moves CLOCK_TAI")):
            with pytest.raises(ValidationError, match=why):
                faults.parse({"kind": "clock.namespace", "monotonic": "1d", clock: "1h"})
        assert any("CLOCK_MONOTONIC" in said for said in faults.parse(BACK).cannot_know())
    else:
        enter = "stormcell-guest timens run fault"
        spec = {"kind": "clock.namespace", "monotonic": "100000s"}
        stay = f"{enter} sleep 59 > /dev/null 2>&1 & until pgrep -x sleep > /dev/null; do sleep 0.1; done"
        trial = guest.attempt(spec, under=[f"{stay}; {enter} {MONO}; {MONO}"])
        trial.proven()
        first, second = ([float(word) for word in line.split()] for line in trial.said[0].splitlines())
        assert first[0] - second[0] == pytest.approx(100_000, abs=30)
        assert first[1] - second[1] == pytest.approx(0, abs=30)


async def sampled(bench, template, spec, **parts):
    """The trial; meanwhile the offsets of this machine, another one and the host, as the host sees them."""
    offsets: dict[str, list[float]] = {"guest": [], "other": [], "host": []}
    over = asyncio.Event()

    async def sample(other):
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        while not over.is_set():
            for name, sandbox in (("guest", bench.sandbox), ("other", other)):
                said = await sandbox.exec("date +%s.%N; echo >> /run/looks", check=True)
                offsets[name].append(float(said.text) - time.time())
            offsets["host"].append(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - boot)
            await asyncio.sleep(0.3)

    async with await AsyncSandbox.create(template, ttl_seconds=600) as other:
        watching = asyncio.create_task(sample(other))
        try:
            trial = await attempt(bench.sandbox, spec, **parts)
        finally:
            over.set()
            await watching
    return trial, offsets


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_15_a_time_daemon_that_undoes_the_jump_is_named_or_held(guest, template, way):
    guest.put("/root/chronyd", DAEMON)
    guest.run("chmod +x /root/chronyd")
    spec = {**BACK, "stop_daemons": way == "ours"}
    guest.run("touch /run/looks")
    looks = "$(wc -l < /run/looks)"
    under = [f"sleep 1; n={looks}; until [ {looks} -gt $((n + 3)) ]; do sleep 0.1; done"]
    parts = {"loads": ["exec /root/chronyd"], "under": under, "ready": there("chronyd")}
    trial, offsets = guest._runner.run(sampled(guest, template, spec, **parts))
    assert max(map(abs, offsets["host"])) < 60
    assert max(map(abs, offsets["other"])) < 60, "an answer may take its time"
    off = [offset for offset in offsets["guest"] if abs(offset + 3600) < 360]
    if way == "naive":
        assert len(off) <= 2
        assert trial.receipt.in_force is False, "void: the fault was in force for a moment only"
        assert any(note.startswith("undone by chronyd[") for note in trial.receipt.notes), trial.receipt.notes
    else:
        trial.proven()
        assert len(off) >= 3
        assert "held until the undo: chronyd" in trial.receipt.notes
    assert trial.receipt.clean
