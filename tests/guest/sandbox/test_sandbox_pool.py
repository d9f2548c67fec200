"""Pools of sandboxes made ahead: what a taker gets, and that nothing outlives the owner."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from stormcell import AsyncPool, AsyncSandbox, Pool
from stormcell.sandbox import gc, lease, listing, removal
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.record import Record
from stormcell.spec.errors import SandboxError, SandboxNotFound, SpecError
from stormcell.template.store import shipped

IDENTITY = "cat /proc/sys/kernel/hostname /etc/machine-id /proc/sys/kernel/random/uuid; date +%s.%N"
OWNER = """
import asyncio, sys
from stormcell import AsyncPool
async def main():
    pool = await AsyncPool("base", size=1, processes=1).open()
    print(await pool.filled(), flush=True)
    {then}
asyncio.run(main())
"""


def states(home):
    found = sorted(home.sandboxes.iterdir())
    return [record_of(folder).state for folder in found]


def left(home):
    return list(home.sandboxes.iterdir())


def record_of(folder) -> Record:
    record = Record.read(folder)
    assert record is not None
    return record


def machine_of(record: Record) -> ProcessRef:
    assert record.machine is not None
    return record.machine


async def clock_error(sbx):
    """Seconds that the guest's clock is ahead, and how well that is known."""
    seen = []
    for _ in range(8):
        asked = time.time()
        shown = float((await sbx.exec("date +%s.%N")).text)
        answered = time.time()
        seen.append((answered - asked, shown - (asked + answered) / 2))
    return min(seen)[1], min(seen)[0]


def test_what_waits_is_handed_out_with_all_that_was_asked_for_and_made_again(home, template):
    async def main():
        async with AsyncPool(template, size=2) as pool:
            assert await pool.filled()
            assert pool.waiting == (2, 0)
            assert states(home) == ["waiting", "waiting"]
            assert {row.state for row in listing.rows(home)} == {"waiting"}
            await asyncio.sleep(1.5)  # a clock that nobody steps would lag by this
            made = [
                await pool.create(ttl_seconds=600, metadata={"who": str(n)}, open_ports={"web": 8000}) for n in range(2)
            ]
            assert len({sbx.id for sbx in made}) == 2
            seen, off = [], []
            for number, sbx in enumerate(made):
                record = record_of(sbx.folder)
                assert record == sbx.record
                assert (record.state, record.metadata, record.ttl_seconds) == ("running", {"who": str(number)}, 600)
                found = lease.read(sbx.folder)
                assert found is not None
                assert found.ttl_seconds == 600
                error, doubt = await clock_error(sbx)
                off.append((abs(error) - doubt, error, doubt))
                seen.append((await sbx.exec(IDENTITY)).text.split()[:3])
                assert seen[-1][0] == sbx.id
            assert all(len(set(words)) == 2 for words in zip(*seen, strict=True))
            # a host that stands still while it steps a clock leaves that one late
            assert min(off)[0] < 0.05 and max(off)[0] < 10, off
            serving = "cd /tmp; hostname > hostname; nohup python3 -m http.server 8000 >/dev/null 2>&1 &"
            await made[0].exec(serving)
            assert (await asyncio.to_thread(fetch, made[0].ports["web"])).strip() == made[0].id
            assert made[0].ports["web"] != made[1].ports["web"]
            assert await pool.filled()
            assert pool.waiting == (2, 0)
        # what was handed out lives on
        assert {folder.name for folder in left(home)} == {sbx.id for sbx in made}
        for sbx in made:
            assert (await sbx.exec(["true"])).ok
            assert (await sbx.kill()).complete

    asyncio.run(main())


def fetch(port):
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/hostname", timeout=20) as answer:
                return answer.read().decode()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_an_empty_pool_restores_and_a_process_that_waits_serves_a_create_too(home, template):
    async def main():
        async with AsyncPool(template, size=0, processes=1) as pool:
            assert await pool.filled()
            (waits,) = (folder.name for folder in left(home))
            marks: list[str] = []
            async with await pool.create(mark=marks.append, open_ports={"ssh": 22}) as first:
                assert first.id == waits
                assert "process" in marks
                assert set(first.ports) == {"ssh"}
                assert (await first.exec("hostname")).text.strip() == first.id
        async with AsyncPool(template, size=0) as pool, await pool.create(raw=True) as sbx:
            assert (await sbx.exec(["true"])).ok

    asyncio.run(main())
    assert left(home) == []


def test_children_of_a_fork_take_processes_that_wait_and_others_are_started(home, template):
    async def main():
        async with await AsyncSandbox.create(template, open_ports={"web": 80}) as parent:
            await parent.exec("echo kept > /run/file; echo disk > /root/file; sync")
            async with AsyncPool(template, size=0, processes=1) as pool:
                assert await pool.filled()
                (waits,) = ({folder.name for folder in left(home)}) - {parent.id}
                children = await parent.fork(2, metadata={"is": "child"}, ttl_seconds=500)
                assert children[0].id == waits
                for child in children:
                    record = record_of(child.folder)
                    assert (record.parent, record.state, record.ttl_seconds) == (parent.id, "running", 500)
                    assert (record.metadata, set(record.ports)) == ({"is": "child"}, {"web"})
                    assert record.layers
                    said = (await child.exec("cat /run/file /root/file; hostname")).text.split()
                    assert said == ["kept", "disk", child.id]
                # a child lives on its process as if it had been started for it
                grandchild = await children[0].fork()
                assert (await grandchild.exec("cat /run/file")).text == "kept\n"
                for each in (grandchild, *children):
                    await each.kill()

    asyncio.run(main())
    assert left(home) == []


def test_what_died_or_was_removed_while_it_waited_is_passed_over(home, template):
    async def main():
        async with AsyncPool(template, size=2, processes=1) as pool:
            assert await pool.filled()
            records = [record_of(folder) for folder in left(home)]
            removal.kill_process(machine_of(records[0]))
            removal.remove(home.sandboxes / records[1].id, "by hand")
            removal.remove(home.sandboxes / records[2].id, "by hand")
            async with await pool.create() as sbx:
                assert sbx.id not in {record.id for record in records}
                assert (await sbx.exec(["true"])).ok

    asyncio.run(main())
    assert left(home) == []


def test_nothing_is_left_after_an_exception_or_when_the_event_loop_ends(home, template):
    async def raising():
        async with AsyncPool(template, size=1, processes=1) as pool:
            assert await pool.filled()
            raise KeyError("ours")

    with pytest.raises(KeyError):
        asyncio.run(raising())
    assert left(home) == []

    async def forgetful():
        pool = await AsyncPool(template, size=1).open()
        assert await pool.filled()

    asyncio.run(forgetful())
    assert left(home) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_owner(home, template, eventually, how):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(then="await asyncio.sleep(600)")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert owner.stdout is not None
    assert owner.stdout.readline() == "True\n"
    records = [record_of(folder) for folder in left(home)]
    assert len(records) == 2
    assert list(gc.collect(home)) == []  # it lives, and waits for somebody
    owner.send_signal(how)
    owner.communicate()
    if how == signal.SIGKILL:
        ids = {record.id for record in records}

        def reaped():
            log = home.state / "reaped.jsonl"
            lines = log.read_text().split("\n")[:-1] if log.exists() else []
            return {line["id"]: line["reason"] for line in map(json.loads, lines) if line["id"] in ids}

        assert eventually(lambda: len(reaped()) == 2)  # it is written down when the files are gone
        # the reason says that it was not the lease that was over
        assert set(reaped().values()) == {"the process in whose pool it waited is dead"}
    assert left(home) == []
    assert not any(machine_of(record).alive() for record in records)


def test_gc_removes_what_a_killed_owner_left(home):
    code = OWNER.format(then="import os; os.kill(os.getpid(), 9)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == -signal.SIGKILL
    items = list(gc.collect(home))
    assert all(item.gone for item in items)
    assert left(home) == []


@pytest.mark.parametrize("step", ["taken", "went on", "recorded"])
def test_a_taker_that_is_killed_half_way_leaves_what_gc_finds(home, step):
    then = f"import os; await pool.create(mark=lambda step: step != {step!r} or os.kill(os.getpid(), 9))"
    done = subprocess.run([sys.executable, "-c", OWNER.format(then=then)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    machines = [record.machine for folder in left(home) if (record := Record.read(folder))]
    assert all(item.gone for item in gc.collect(home))
    assert left(home) == []
    assert not any(machine.alive() for machine in machines if machine)


def test_what_waits_goes_when_the_recipe_was_written_to(home, tmp_path):
    recipe = tmp_path / "base.yaml"
    recipe.write_text(shipped()["base"].read_text())

    async def main():
        async with AsyncPool(str(recipe), size=1) as pool:
            assert await pool.filled()
            (stale,) = left(home)
            recipe.write_text(recipe.read_text() + "\n# another thought\n")
            async with await pool.create() as sbx:
                assert sbx.id != stale.name
                assert not stale.exists()
            assert await pool.filled()
            assert pool.waiting == (1, 0)

    asyncio.run(main())


def test_the_memory_limit_is_kept(home, template):
    one = max(96, template.shape.memory_mib // 4) << 20

    async def main():
        async with AsyncPool(template, size=4, processes=3, memory=one + (60 << 20)) as pool:
            assert await pool.filled()
            assert pool.waiting == (1, 1)
            together = sum(row.memory_pss for row in listing.rows(home))
            assert 0 < together < one + (60 << 20)

    asyncio.run(main())


def test_two_pools_in_one_home_keep_apart(home, template):
    with Pool(template, size=1) as one, Pool(template, size=1) as other:
        assert one.filled()
        assert other.filled()
        assert len(left(home)) == 2
        one.close()
        assert len(left(home)) == 1
        with other.create() as sbx:
            assert sbx.exec("hostname").text.strip() == sbx.id
        with pytest.raises(SandboxError, match="closed"):
            one.create()


def test_a_pool_serves_its_process_and_its_event_loop_alone(home, template):
    with Pool(template, size=1) as pool:
        assert pool.filled()
        child = os.fork()
        if child == 0:
            try:
                pool.create()
            except SandboxError as error:
                pool.close()  # must not touch what is the parent's
                os._exit(0 if re.search(r"belongs to process \d+", str(error)) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(SandboxError, match="another event loop"):
            asyncio.run(pool._twin.create())
        with pool.create() as sbx:
            assert sbx.exec(["true"]).ok


def test_one_that_waits_cannot_be_attached(home, template):
    with Pool(template, size=1) as pool:
        assert pool.filled()
        (folder,) = left(home)
        with pytest.raises(SandboxNotFound, match="is waiting"):
            asyncio.run(AsyncSandbox.attach(folder.name))


@pytest.mark.parametrize("wrong", [{"size": -1}, {"size": True}, {"processes": 65}, {"memory": -1}, {"memory": "1G"}])
def test_what_a_pool_is_asked_for_is_checked_first(wrong):
    with pytest.raises(SpecError):
        AsyncPool(**wrong)
