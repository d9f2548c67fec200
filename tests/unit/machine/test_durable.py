import asyncio
import subprocess
import sys
import threading

import pytest

from stormcell.machine.durable import aside, awaited_lock, lock, publish, write_atomically


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "record"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["record"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_built_aside_is_gone_after_a_failure(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "left-by-a-killed-build").touch()
    with pytest.raises(RuntimeError), aside(tmp_path / "new") as work:
        assert list(work.iterdir()) == []
        (work / "half").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_published_folder_has_its_name_and_its_files(tmp_path):
    (tmp_path / "new" / "sub").mkdir(parents=True)
    (tmp_path / "new" / "sub" / "file").write_text("x")
    publish(tmp_path / "new", tmp_path / "final")
    assert (tmp_path / "final" / "sub" / "file").read_text() == "x"
    assert not (tmp_path / "new").exists()


def test_a_lock_keeps_others_out_and_dies_with_its_holder(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from stormcell.machine.durable import lock\n"
        "with lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    path = tmp_path / "lock"
    other = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with lock(path, wait=False) as mine:
            assert not mine
    finally:
        other.kill()
        other.communicate()
    with lock(path, wait=False) as mine:
        assert mine


def test_who_waits_for_a_lock_can_be_cancelled_and_gets_it_when_it_is_free(tmp_path):
    """A thread in flock would keep the process alive after Ctrl-C for as long as the other build runs."""
    path = tmp_path / "lock"
    told = []

    async def wait() -> str:
        async with awaited_lock(path, lambda: told.append("waiting")):
            return "mine"

    async def cancelled() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def freed() -> str:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.5)
        held.__exit__(None, None, None)
        return await task

    held = lock(path)
    held.__enter__()
    asyncio.run(cancelled())
    assert told == ["waiting"]
    assert asyncio.run(freed()) == "mine"
    with lock(path, wait=False) as mine:
        assert mine


def test_who_waited_for_a_lock_that_was_removed_shares_it_with_nobody(tmp_path):
    path, has_it, may_end = tmp_path / "lock", threading.Event(), threading.Event()

    def wait_for_it():
        with lock(path) as mine:
            assert mine
            has_it.set()
            may_end.wait(60)

    waiting = threading.Thread(target=wait_for_it)
    with lock(path):
        waiting.start()
        assert not has_it.wait(0.2)
        path.unlink()
    assert has_it.wait(60)
    try:
        with lock(path, wait=False) as mine:
            assert not mine
    finally:
        may_end.set()
        waiting.join()
