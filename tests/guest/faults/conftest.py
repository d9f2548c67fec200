"""Faults in sandboxes of the shipped template `base`. The host is compared before and after every module."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.faults.fault_trial import Bench


@pytest.fixture(scope="module", autouse=True)
def _in_own_home(own_home) -> None:
    """Every sandbox of these tests."""


def answer(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=30).stdout
    except FileNotFoundError:
        return ""


def host_state() -> dict[str, object]:
    """What a fault in a guest must never move on the host."""
    qdiscs = json.loads(answer("tc", "-j", "qdisc", "show") or "[]")
    clock = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return {
        "qdiscs": sorted(f"{q['dev']} {q['kind']} {q['handle']}" for q in qdiscs),
        "nft": answer("nft", "list", "tables"),
        "mounts": sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "links": sorted(p.name for p in Path("/sys/class/net").iterdir()),
        "cgroups": sorted(str(p) for p in Path("/sys/fs/cgroup").glob("*/*") if "stormcell" in p.name),
        "clock": round(clock / 5),
        "fillers": [str(p) for folder in ("/", "/var", "/tmp") for p in Path(folder).glob(".stormcell-*")],
    }


@pytest.fixture(scope="module", autouse=True)
def host_is_untouched() -> Iterator[None]:
    before = host_state()
    before_clock = int(str(before.pop("clock")))
    yield
    for _ in range(20):
        after = host_state()
        after_clock = int(str(after.pop("clock")))
        if after == before:
            break
        time.sleep(1)  # what others do on this machine comes and goes, what a fault has left stays
    assert after == before
    assert abs(after_clock - before_clock) <= 1


@pytest.fixture(scope="module")
def bench(own_home, template) -> Iterator[Bench]:
    made = Bench(template)
    made.put_tools()
    yield made
    made.close()
