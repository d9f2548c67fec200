import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormcell.spec.errors import BuildFailed, TemplateBroken
from stormcell.spec.home import Home
from stormcell.spec.recipe import Recipe
from stormcell.template import build as building
from stormcell.template.build import build
from stormcell.template.model import Progress
from stormcell.template.store import Store
from tests.guest.microvm import base_template, output, restored

pytestmark = pytest.mark.guest


@pytest.fixture
def home(tmp_path):
    """A home with templates of its own over the kernels and images that are built already."""
    base_template()
    shared = Home.current()
    own = Home(tmp_path / "state", tmp_path / "cache")
    own.cache.mkdir()
    for name in ("kernels", "rootfs", "initramfs", "accel"):
        if (shared.cache / name).exists():
            (own.cache / name).symlink_to(shared.cache / name)
    return own


def built(recipe, home):
    stages: list[Progress] = []
    template = asyncio.run(build(recipe, home=home, progress=stages.append))
    return template, stages


def leftovers(home):
    """Template folders, whole or half built, and machines that still run in them."""
    folders = [path for path in home.templates.iterdir() if path.is_dir()] if home.templates.exists() else []
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(home.templates).encode() in path.read_bytes():
                processes.append(path.parent.name)
        except OSError:
            continue
    return folders, processes


def test_a_recipe_becomes_a_running_snapshot(home, tmp_path):
    recipe = Recipe(
        name="whole",
        files=[{"path": "/opt/app/greeting", "content": "hello\n", "mode": "0600", "owner": "nobody:nogroup"}],
        setup="set -e\ncp /opt/app/greeting /opt/app/copy\nid -u >/opt/app/uid",
        services=[
            {
                "name": "clock",
                "command": "while :; do echo x >/run/clock/now; sleep 0.2; done",
                "user": "nobody",
                "before": "install -d -o nobody /run/clock",
                "ready": "test -s /run/clock/now",
            }
        ],
        ready="test -s /run/clock/now",
        warm="cat /opt/app/copy >/dev/null",
        disk={"size": "2GiB"},
    )
    template, stages = built(recipe, home)
    assert template.services == ("clock",) and template.name == "whole"
    order = [stage.stage for stage in stages]
    assert [s for s in order if s in ("boot", "files", "setup", "services", "ready", "warm", "snapshot", "done")] == [
        "boot", "files", "setup", "services", "ready", "warm", "snapshot", "done",
    ]  # fmt: skip
    assert all(stage.template == "whole" and stage.text for stage in stages)

    again, stages = built(recipe, home)
    assert again.digest == template.digest and stages == []

    async def story():
        async with restored(template, tmp_path / "vm") as (_, channel):
            assert await output(channel, "cat /opt/app/copy /opt/app/uid") == "hello\n0\n"
            assert (await output(channel, "stat -c '%U:%G %a' /opt/app/greeting")) == "nobody:nogroup 600\n"
            assert (await output(channel, "ps -o user= -p $(pgrep -f run/clock/now | head -1)")).strip() == "nobody"
            assert "running" in await output(channel, "stormcell-guest service status")

    asyncio.run(story())
    Store(home).remove("whole")
    assert leftovers(home) == ([], [])


DYING = {
    "name": "bad",
    "command": "echo service speaks; exit 3",
    "restart": "never",
    "ready": "false",
    "ready_within": "3s",
}
PANIC = "echo s >/proc/sysrq-trigger; echo c >/proc/sysrq-trigger; sleep 60"


@pytest.mark.parametrize(
    ("changes", "says", "shows"),
    [
        ({"setup": "echo about to fail; echo reason >&2; exit 7"}, "exit code 7", ["about to fail", "reason"]),
        ({"setup": "echo started; sleep 600", "setup_within": "3s"}, "did not end in time", ["started"]),
        ({"ready": "echo still red; exit 1", "ready_within": "2s"}, "not ready within 2s", ["still red"]),
        ({"warm": "echo cold; exit 1"}, "`warm` script", ["cold"]),
        ({"services": [DYING]}, "not running: bad", ["service speaks"]),
        ({"setup": PANIC}, "ended by itself", ["Kernel panic"]),
    ],
    ids=["setup-fails", "setup-hangs", "never-ready", "warm-fails", "service-dies", "guest-dies"],
)  # fmt: skip
def test_a_build_that_fails_says_why_and_leaves_nothing(home, changes, says, shows):
    with pytest.raises(BuildFailed) as caught:
        built(Recipe(name="failing", **changes), home)
    assert says in caught.value.what
    assert all(text in caught.value.detail for text in shows), caught.value.detail
    assert leftovers(home) == ([], [])
    assert not (home.names / "failing").exists()


def test_a_boot_that_never_ends_is_given_up_with_the_console(home, monkeypatch):
    monkeypatch.setattr(building, "BOOT_S", 0.5)
    with pytest.raises(BuildFailed, match="did not answer"):
        built(Recipe(name="slow"), home)
    assert leftovers(home) == ([], [])


def test_a_build_killed_half_way_is_never_used_and_built_again(home):
    code = """
import asyncio, os, sys
from pathlib import Path
from stormcell.spec.home import Home
from stormcell.spec.recipe import Recipe
from stormcell.template.build import build
def stop(progress):
    if progress.stage == "snapshot":
        os.kill(os.getpid(), 9)
asyncio.run(build(Recipe(name="torn"), home=Home(Path(sys.argv[1]), Path(sys.argv[2])), progress=stop))
"""
    done = subprocess.run([sys.executable, "-c", code, home.state, home.cache], check=False, timeout=240)
    assert done.returncode == -signal.SIGKILL
    folders, machines = leftovers(home)
    assert [folder.suffix for folder in folders] == [".new"] and len(machines) == 1
    assert Store(home).list() == []
    template, _ = built(Recipe(name="torn"), home)
    assert Store(home).open(template.digest, full=True).digest == template.digest
    assert leftovers(home) == ([template.folder], [])


def test_a_broken_template_is_refused_and_replaced_by_the_next_build(home):
    template, _ = built(Recipe(name="rotten"), home)
    with template.state.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\xfe")
    with pytest.raises(TemplateBroken, match="state"):
        Store(home).open(template.digest)
    assert [entry.state for entry in Store(home).list()] == ["broken"]
    again, stages = built(Recipe(name="rotten"), home)
    assert again.digest == template.digest and stages
    assert Store(home).open(again.digest, full=True)


def test_two_builders_at_once_share_one_build(home):
    async def story():
        heard: tuple[list[Progress], list[Progress]] = ([], [])
        both = [build(Recipe(name="twice"), home=home, progress=h.append) for h in heard]
        return await asyncio.gather(*both), heard

    (one, two), heard = asyncio.run(story())
    assert one.digest == two.digest
    assert sum(any(p.stage == "boot" for p in h) for h in heard) == 1
    assert any("waiting for another build" in p.text for h in heard for p in h)


def test_a_cancelled_build_leaves_nothing(home):
    async def story():
        task: asyncio.Task[object] | None = None

        def stop(progress):
            if progress.stage == "boot":
                asyncio.get_running_loop().call_later(1.0, task.cancel)  # type: ignore[union-attr]  # it is running

        task = asyncio.create_task(build(Recipe(name="stopped"), home=home, progress=stop))
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 120

    asyncio.run(story())
    assert leftovers(home) == ([], [])
