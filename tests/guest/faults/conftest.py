"""Faults in sandboxes of the shipped template `base`. The host is compared before and after every module."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormcell.sandbox.templates import resolve
from stormcell.spec.home import Home
from stormcell.template.model import Template
from tests.guest.faults.fault_trial import Bench


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.guest)


@pytest.fixture(scope="session")
def template() -> Template:
    return asyncio.run(resolve("base", None))


@pytest.fixture(scope="module", autouse=True)
def own_home(template, tmp_path_factory) -> Iterator[Home]:
    """A state of our own over the user's cache."""
    root: Path = tmp_path_factory.mktemp("home")
    (root / "cache").symlink_to(Home.current().cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORMCELL_HOME", str(root))
        yield Home.current()
    shutil.rmtree(root)


def answer(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=30).stdout
    except FileNotFoundError:
        return ""


def host_state() -> dict[str, object]:
    """What a fault in a guest must never move on the host."""
    qdiscs = json.loads(answer("tc", "-j", "qdisc", "show") or "[]")
    boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {
        "qdiscs": sorted(f"{q['dev']} {q['kind']} {q['handle']}" for q in qdiscs),
        "nft": answer("nft", "list", "tables"),
        "links": sorted(p.name for p in Path("/sys/class/net").iterdir()),
        "cgroups": sorted(str(p) for p in Path("/sys/fs/cgroup").glob("*/*") if "stormcell" in p.name),
        "clock": round((time.time() - boot) / 5),
        "fillers": [str(p) for p in (Path("/"), Path("/var"), Path("/tmp")) if (p / ".stormcell-fill").exists()],
    }


@pytest.fixture(scope="module", autouse=True)
def host_is_untouched() -> Iterator[None]:
    before = host_state()
    yield
    after = host_state()
    before_clock, after_clock = int(str(before.pop("clock"))), int(str(after.pop("clock")))
    assert after == before
    assert abs(after_clock - before_clock) <= 1


@pytest.fixture(scope="module")
def bench(own_home, template) -> Iterator[Bench]:
    made = Bench(template)
    made.put("/root/tool.py", (Path(__file__).parent / "network_tool.py").read_text())
    yield made
    made.close()
