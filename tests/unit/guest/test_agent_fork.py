"""A forked machine's agent: what the other machine's hosts asked for goes on, unheard, and is reported."""

from __future__ import annotations

import os
from pathlib import Path

from stormcell.machine.channel import Orphan
from stormcell.machine.commands import start_command
from tests.unit.guest.agent_process import asynchronous, run, running_agent, until


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@asynchronous
async def test_a_command_goes_on_and_its_output_goes_nowhere(tmp_path: Path) -> None:
    async with running_agent(ports=3) as agent:
        first, second = await agent.channel(), await agent.channel()
        done = tmp_path / "done"
        script = (
            f"i=0; while [ $i -lt 3000 ]; do echo $i 012345678901234567890123456789; i=$((i+1)); done; echo > {done}"
        )
        # unread output fills the pipe, so the command stands still until somebody reads again
        talker = await start_command(first, None, f"sleep 0.5; yes '' | head -c 4000000; {script}")
        reader = await start_command(second, ["cat"], None, stdin=True)
        pids = [command.pid for command in (talker, reader)]
        assert await (await agent.channel(forked=True)).orphans() == (
            Orphan(pids[0], f"/bin/sh -c sleep 0.5; yes '' | head -c 4000000; {script}"[:200]),
            Orphan(pids[1], "cat"),
        )
        await until(done.exists)
        await until(lambda: not alive(pids[0]))
        assert alive(pids[1]), "its stdin is open, as it was"
        os.kill(pids[1], 15)
        await until(lambda: not alive(pids[1]))


@asynchronous
async def test_the_deadline_of_an_orphan_holds() -> None:
    for timeout in (1, 10):  # a machine that stood still for the shorter one has no orphan any more
        async with running_agent(ports=2) as agent:
            sleeper = await start_command(await agent.channel(), ["sleep", "60"], None, timeout=timeout)
            pid = sleeper.pid
            channel = await agent.channel(forked=True)
            orphans = [orphan.pid for orphan in await channel.orphans()]
            await until(lambda pid=pid: not alive(pid))  # type: ignore[misc]
            assert (await run(channel, ["true"]))[0].exit_code == 0
        if orphans:
            break
    assert orphans == [pid]


@asynchronous
async def test_a_copy_that_was_going_on_is_given_up(tmp_path: Path) -> None:
    """Half of a file is worth nothing: it does not go on without the bytes, and it is no orphan."""
    async with running_agent(ports=2) as agent:
        first = await agent.channel()
        exchange = await first.open({"op": "file.write", "path": str(tmp_path / "file"), "mode": 0o600})
        await exchange.write(b"half")
        channel = await agent.channel(forked=True)
        assert await channel.orphans() == ()
        await until(lambda: list(tmp_path.iterdir()) == [])


@asynchronous
async def test_an_ordinary_connection_still_ends_what_the_last_one_asked_for() -> None:
    async with running_agent(ports=2) as agent:
        first = await agent.channel()
        pid = (await start_command(first, ["sleep", "60"], None)).pid
        await first.close()
        await until(lambda: not alive(pid))
        assert await (await agent.channel()).orphans() == ()
