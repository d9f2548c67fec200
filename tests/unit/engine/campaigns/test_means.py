"""Admission: what fits goes, what will fit waits, what never fits is refused."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.engine.campaigns import growth, means
from stormcell.engine.campaigns.means import DISK_KEPT, MEMORY_KEPT, MIB, Means, Need, decide
from stormcell.engine.campaigns.promises import Promises, owed
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.spec.home import Home

ROOMY = Means(8000 * MIB, 8000 * MIB, 8000 * MIB, 8000 * MIB)
ONE = Need(100 * MIB, 100 * MIB)


@pytest.mark.parametrize(
    ("promised", "host", "decision", "said"),
    [
        (Need(0, 0), ROOMY, "go", ""),
        (Need(7700 * MIB, 0), ROOMY, "wait", "promised to runs under way"),
        (Need(0, 7700 * MIB), ROOMY, "wait", "for disk"),
        (Need(0, 0), Means(300 * MIB, 8000 * MIB, 8000 * MIB, 8000 * MIB), "wait", "for memory"),
        (Need(0, 0), Means(300 * MIB, 300 * MIB, 8000 * MIB, 8000 * MIB), "never", "in all"),
        (Need(0, 0), Means(8000 * MIB, 8000 * MIB, 300 * MIB, 300 * MIB), "never", "disk"),
    ],
)
def test_one_more_run(promised, host, decision, said):
    answer = decide(ONE, promised, host)
    assert answer.decision == decision
    assert said in answer.why


@given(st.integers(1, 200), st.lists(st.integers(0, 120), max_size=60), st.integers(256, 4000))
def test_all_that_was_let_in_fits_even_if_everyone_uses_all_of_it(need, already, total):
    """Runs are let in one after another; each grows as far as `already` says by the time that the next one asks."""
    host = Means(total * MIB, total * MIB, ROOMY.disk, ROOMY.disk_total)
    running: list[tuple[Need, Need]] = []
    one = Need(need * MIB, 0)
    for grown in already:
        used = sum(now.memory for _, now in running)
        promised = Need(sum(owed(*pair).memory for pair in running), 0)
        if (
            decide(one, promised, Means(host.memory - used, host.memory_total, host.disk, host.disk_total)).decision
            == "go"
        ):
            running.append((one, Need(min(grown, need) * MIB, 0)))
    assert sum(promised.memory for promised, _ in running) + MEMORY_KEPT <= host.memory or not running


def test_this_host_has_something():
    found = means.look(Path("/"))
    assert 0 < found.memory <= found.memory_total
    assert found.disk_total > DISK_KEPT
    assert means.processors() >= 1


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        (
            "0::/a/b\n",
            {"a/memory.max": "1000", "a/memory.current": "900", "a/memory.stat": "anon 1\ninactive_file 300\n"},
        ),
        (
            "5:cpu,memory:/a/b\n1:name=systemd:/\n",
            {
                "memory/a/memory.limit_in_bytes": "1000",
                "memory/a/memory.usage_in_bytes": "900",
                "memory/a/memory.stat": "inactive_file 5\ntotal_inactive_file 300\n",
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/memory.usage_in_bytes": "5000",
            },
        ),
    ],
)
def test_limits_of_both_kinds_of_cgroups_count(tmp_path, membership, files):
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = list(means._cgroup_memory(tmp_path / "membership", tmp_path / "mount"))
    assert found == [(1000, 400)]


def test_quota_of_both_kinds(tmp_path):
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert means._quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert means._quota(tmp_path) is None
    (tmp_path / "cpu.cfs_quota_us").write_text("-1")
    (tmp_path / "cpu.cfs_period_us").write_text("100000")
    assert means._quota(tmp_path) is None


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "state", tmp_path / "cache")


def test_what_one_campaign_promised_another_one_sees_until_it_is_used_or_over(home):
    """The other one is a process of its own that lives until its standard input is closed."""
    code = f"""
import sys
from pathlib import Path
from stormcell.engine.campaigns.means import Need
from stormcell.engine.campaigns.promises import Promises
from stormcell.spec.home import Home
promises = Promises(Home(Path({str(home.state)!r}), Path("/nonexistent")))
with promises.settled():
    promises.promise("a", Need(100, 10))
print("promised", flush=True)
sys.stdin.read()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "promised\n"
    mine = Promises(home)
    with mine.settled() as promised:
        assert promised == Need(100, 10)
        mine.promise("b", Need(5, 5))
    mine.used("b", Need(3, 0))
    with mine.settled() as promised:
        assert promised == Need(102, 15)
    other.communicate()
    mine.forget("b")
    with mine.settled() as promised:
        assert promised == Need(0, 0)


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"owner": 1}]', '[{"owner": {"x": 1}, "memory": 1, "disk": 1}]'])
def test_a_torn_file_of_promises_counts_as_empty(home, text):
    home.state.mkdir()
    (home.state / "promises.json").write_text(text)
    mine = Promises(home)
    with mine.settled() as promised:
        assert promised == Need(0, 0)
        mine.promise("b", Need(5, 5))
    (entry,) = json.loads((home.state / "promises.json").read_text())
    assert entry == {"owner": asdict(ProcessRef.here()), "memory": 5, "disk": 5}


class Shape:
    memory_mib = 512


class Template:
    digest = "d" * 64
    shape = Shape


def test_growth_is_remembered_and_the_largest_counts(home):
    template = Template()
    assert growth.expected(template, home) == 128 * MIB  # type: ignore[arg-type]
    for peak in (50, 80, 0, 60):
        growth.remember(template, home, peak * MIB)  # type: ignore[arg-type]
    assert growth.expected(template, home) == 100 * MIB  # type: ignore[arg-type]
    assert growth.private_bytes(os.getpid()) > 5 * MIB
    assert growth.private_bytes(2**22 + 1) == 0
