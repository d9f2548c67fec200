"""What outlives its maker: the ttl, the reaper, gc."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stormcell import AsyncSandbox, Sandbox
from stormcell.sandbox import gc, lease, reaper
from stormcell.sandbox.record import Record
from stormcell.spec.errors import SandboxNotFound
from stormcell.spec.home import Home

MAKER = """
import asyncio, os, signal, sys
from stormcell import AsyncSandbox
async def main():
    made = await AsyncSandbox.create("base", ttl_seconds=float(sys.argv[1]), detached=sys.argv[2] == "detached")
    print(made.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def killed_maker(ttl: float, kind: str = "owned") -> str:
    """The id of a sandbox whose maker was killed with SIGKILL."""
    done = subprocess.run([sys.executable, "-c", MAKER, str(ttl), kind], capture_output=True, text=True, timeout=250)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


def alive(record: Record) -> bool:
    return record.machine is not None and record.machine.alive()


def reaped(home: Home, name: str) -> list[dict[str, Any]]:
    """The reaper's evidence about it, in whole lines."""
    log = home.state / "reaped.jsonl"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [entry for entry in map(json.loads, lines) if entry["id"] == name]


def test_the_reaper_kills_at_the_ttl_though_the_maker_was_killed(home, eventually):
    name = killed_maker(6)
    record = Record.read(home.sandboxes / name)
    assert record is not None and record.machine is not None and record.owner is not None
    assert eventually(lambda: reaper.running(home.state))  # it begins beside the create, and more slowly
    assert eventually(lambda: not (home.sandboxes / name).exists())
    assert not alive(record)
    assert eventually(lambda: reaped(home, name))  # it is written down when the files are gone
    (evidence,) = reaped(home, name)
    assert evidence["complete"] is True
    assert evidence["processes"][0]["pid"] == record.machine.pid
    with pytest.raises(SandboxNotFound):
        Sandbox.attach(name)


def test_gc_removes_what_the_killed_maker_left_long_before_its_ttl(home):
    name = killed_maker(3000)
    record = Record.read(home.sandboxes / name)
    assert record is not None and record.machine is not None and record.owner is not None
    assert alive(record)
    (seen,) = [item for item in gc.collect(home, dry_run=True) if item.path.name == name]
    assert alive(record)
    (item,) = [item for item in gc.collect(home) if item.path.name == name]
    assert item.gone
    assert seen.path == item.path
    assert f"process {record.owner.pid}, is dead" in item.reason
    assert not alive(record)
    assert not (home.sandboxes / name).exists()
    assert list(gc.collect(home)) == []


def test_gc_removes_a_create_that_was_killed_half_way(home, eventually):
    code = MAKER.replace("print(made.id, flush=True)", "pass")
    for delay in (0.5, 0.7, 0.9, 1.1):
        maker = subprocess.Popen([sys.executable, "-c", code, "3000", "owned"])
        time.sleep(delay)
        maker.kill()
        maker.wait()
        items = list(gc.collect(home))
        assert all(item.gone for item in items)
        assert list(home.sandboxes.iterdir()) == []


def test_a_detached_one_lives_on_can_be_attached_and_gc_spares_it(home):
    name = killed_maker(3000, "detached")
    assert list(gc.collect(home)) == []
    sbx = Sandbox.attach(name)
    assert sbx.exec("echo still").text == "still\n"
    assert sbx.kill().complete


def test_work_in_flight_keeps_it_alive_and_idleness_does_not(home, template, eventually):
    async def main() -> None:
        sbx = await AsyncSandbox.create(template, ttl_seconds=4)
        result = await sbx.exec("sleep 10; echo lived")
        assert result.text == "lived\n"
        assert lease.read(sbx.folder) is not None
        for _ in range(1000):
            if not sbx.folder.exists():
                break
            await asyncio.sleep(0.1)
        with pytest.raises(SandboxNotFound):
            await sbx.exec("true")
        assert (await sbx.kill()).already_gone

    asyncio.run(main())


def test_the_reaper_is_one_and_detached(home, template, eventually):
    def running() -> list[int]:
        return [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if str(home.state).encode() in _read(path) and b"reaper" in _read(path)
        ]

    with Sandbox.create(template), Sandbox.create(template):
        # two that begin at once are two until the second has seen the first
        assert eventually(lambda: reaper.running(home.state) and len(running()) == 1)
        (pid,) = running()
        assert eventually(lambda: (home.state / "reaper.lock").read_text() == f"{pid}\n")
        parent, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1:4:2]
        assert int(session) != int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[3])
        assert int(parent) != int(Path("/proc/self/stat").read_text().split()[0])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
