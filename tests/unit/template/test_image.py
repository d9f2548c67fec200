import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormcell.machine.durable import check_room
from stormcell.spec.errors import NoSpace
from stormcell.template.image import _remedy, say_from_mmdebstrap
from stormcell.template.namespace import own_mounts, remove_tree
from stormcell.template.program import run


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_room_is_said_with_figures_and_a_remedy(tmp_path):
    with pytest.raises(NoSpace, match="are needed") as caught:
        check_room(tmp_path, 2**60)
    assert "STORMCELL_HOME" in caught.value.remedy and str(tmp_path) in str(caught.value)
    check_room(tmp_path, 1)


def test_a_program_s_last_words_are_kept_and_its_notices_passed_on():
    heard: list[str] = []
    script = "echo 'I: first' >&2; cat >&2; seq 100 >&2; exit 3"
    status, words = asyncio.run(run(["/bin/sh", "-c", script], say_from_mmdebstrap(heard.append), stdin=b"fed\n"))
    assert status == 3 and heard == ["first"]
    assert words.splitlines()[-1] == "100" and len(words.splitlines()) == 40


def test_a_cancelled_program_leaves_no_process(tmp_path):
    script = f"trap 'echo cleaned >{tmp_path}/trap; exit' TERM; sleep 600 & echo $! >{tmp_path}/pid; wait"

    async def story():
        task = asyncio.create_task(run(["/bin/sh", "-c", script], lambda _: None))
        await asyncio.to_thread(until, lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert (tmp_path / "trap").read_text() == "cleaned\n"  # SIGTERM came first: mmdebstrap removes its tree then
    child = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{child}").exists())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts on the host")
def test_a_build_that_is_killed_leaves_no_mount_on_the_host(tmp_path):
    script = f"mount -t tmpfs none {tmp_path}/there && touch {tmp_path}/there/inside && kill -KILL $$"
    (tmp_path / "there").mkdir()
    done = subprocess.run(own_mounts(["/bin/sh", "-c", script]), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not list((tmp_path / "there").iterdir())


def test_a_package_that_is_not_there_is_named_in_the_remedy():
    assert "'psotgresql'" in _remedy("E: Unable to locate package psotgresql\nE: apt-get failed")
    assert "online" in _remedy("E: something else")


def test_removing_what_is_not_there(tmp_path):
    remove_tree(tmp_path / "nothing")
    (tmp_path / "tree/sub").mkdir(parents=True)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_a_program_whose_builder_is_killed_cleans_up_with_all_its_children(tmp_path):
    child = f"trap 'echo child >>{tmp_path}/trap; exit' TERM; echo >{tmp_path}/child; while :; do sleep 0.1; done"
    leader = (
        f"trap 'echo cleaning up >&2; echo leader >>{tmp_path}/trap; exit' TERM; sh -c \"$0\" & "
        f"echo ready >{tmp_path}/ready; wait"
    )
    code = (
        "import asyncio, sys; from stormcell.template.program import run; "
        "asyncio.run(run(['/bin/sh', '-c', *sys.argv[1:]], lambda _: None))"
    )
    builder = subprocess.Popen([sys.executable, "-c", code, leader, child])
    until(lambda: (tmp_path / "ready").exists() and (tmp_path / "child").exists())
    builder.kill()
    builder.wait()
    until(lambda: (tmp_path / "trap").exists() and len((tmp_path / "trap").read_text().split()) == 2)
