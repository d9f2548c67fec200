"""The agent and PID 1 in a real guest: what a socket pair on the host cannot show."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import signal
import socket
import time
from pathlib import Path

import pytest

from stormcell.guest import wire
from stormcell.machine import files
from stormcell.machine.channel import Channel, Identity
from stormcell.machine.commands import start_command
from stormcell.machine.model import Forward
from stormcell.spec.errors import GuestFileError, OutcomeUnknown
from stormcell.template.model import Template
from tests.guest.microvm import base_template, output, restored
from tests.unit.guest.agent_process import asynchronous, communicate, run

pytestmark = pytest.mark.guest
MIB = 1024 * 1024
AGENT = "$(cat /sys/fs/cgroup/stormcell/agent/cgroup.procs)"


@pytest.fixture(scope="module")
def template() -> Template:
    return base_template()


@asynchronous
async def test_a_command_has_its_own_cgroup_and_is_no_favourite_of_the_kernel(
    template: Template, tmp_path: Path
) -> None:
    async with restored(template, tmp_path / "m") as (_, channel):
        text = "cat /proc/self/cgroup /proc/self/oom_score_adj; ps -o sid= -p $$; echo $$; id -un; pwd; hostname"
        group, score, session, pid, user, cwd, name = (await output(channel, text)).split()
        assert group.startswith("0::/stormcell/exec/") and score == "0" and session == pid
        assert (user, cwd, name) == ("root", "/", "m")
        mine = group.removeprefix("0::")
        assert "gone" in await output(channel, f"test -e /sys/fs/cgroup{mine} || echo gone")
        assert "cpu" in await output(channel, "cat /sys/fs/cgroup/stormcell/exec/cgroup.subtree_control")


@asynchronous
async def test_the_agent_is_out_of_reach_of_memory_and_disk_faults(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (_, channel):
        score, locked = (
            await output(channel, f"cat /proc/{AGENT}/oom_score_adj; awk '/VmLck/{{print $2}}' /proc/{AGENT}/status")
        ).split()
        assert score == "-1000" and int(locked) > 5000
        before = await output(channel, f"echo {AGENT}")
        end, _, _ = await run(channel, ["python3", "-c", "x = bytearray(4 << 30); print(len(x))"], timeout=120)
        assert end.signal == signal.SIGKILL or end.exit_code == 1  # the OOM killer, or a refusal
        assert await output(channel, f"echo {AGENT}") == before
        assert "Killed process" in await output(channel, "dmesg") or end.exit_code == 1


@asynchronous
async def test_the_agent_answers_while_the_disk_is_frozen(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (_, channel):
        assert (await run(channel, ["fsfreeze", "--freeze", "/"]))[0].exit_code == 0
        stuck = await start_command(channel, None, "echo x > /var/tmp/x", timeout=2)
        assert (await channel.hello()).generation
        end, _, _ = await communicate(stuck)
        assert end.timed_out
        assert (await channel.hello()).generation
        assert (await run(channel, ["fsfreeze", "--unfreeze", "/"]))[0].exit_code == 0
        assert await output(channel, "echo x > /var/tmp/x && cat /var/tmp/x") == "x\n"


@asynchronous
async def test_the_agent_answers_while_its_commands_are_frozen_before_they_are_programs(
    template: Template, tmp_path: Path
) -> None:
    async with restored(template, tmp_path / "m") as (_, channel):
        groups = "/sys/fs/cgroup/stormcell/exec"
        frozen = ""
        while frozen != "1\n":  # a guest that stands still for the whole second has not begun
            freeze = await start_command(channel, None, f"echo 1 > {groups}/cgroup.freeze", timeout=1)
            end, _, _ = await communicate(freeze)
            assert end.timed_out  # it froze itself, too
            frozen = b"".join([chunk async for chunk in files.read(channel, f"{groups}/cgroup.freeze")]).decode()
        request = {"op": "exec", "timeout_s": 2, "argv": ["true"]}
        stuck = await channel.open(request, deadline=time.monotonic() + 60)
        assert (await channel.hello()).generation
        assert (await stuck.final())["timed_out"]
        assert (await channel.hello()).generation


@asynchronous
async def test_a_timeout_kills_what_hid_in_a_session_of_its_own(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (_, channel):
        hold = "setsid -f sleep 999; setsid sh -c 'trap \"\" TERM INT HUP; sleep 998 & wait' & exit 3"
        for timeout in (2, 20):  # a guest that stood still for the shorter one has not come to the exit
            end, _, _ = await run(channel, shell=hold, timeout=timeout)
            assert end.timed_out and end.left == 0
            if end.exit_code is not None:
                break
        assert end.exit_code == 3
        assert await output(channel, "pgrep -x sleep || echo none") == "none\n"


@asynchronous
async def test_restored_machines_are_strangers(template: Template, tmp_path: Path) -> None:
    seen = []
    text = (
        "cat /proc/sys/kernel/random/uuid /etc/machine-id /run/stormcell/generation; hostname; date +%s.%N; "
        "head -c 8 /dev/urandom | od -An -tx1 | tr -d ' '"
    )
    for name in ("a", "b"):
        async with restored(template, tmp_path / name) as (_, channel):
            lines = (await output(channel, text)).split()
            assert abs(float(lines[4]) - time.time()) < 5
            assert lines[3] == name
            seen.append([line for n, line in enumerate(lines) if n != 4])
    assert all(one != other for one, other in zip(*seen, strict=True))


@asynchronous
async def test_connections_of_the_former_life_are_dropped(template: Template, tmp_path: Path) -> None:
    server = (
        "import socket; s = socket.create_server(('', 8080)); print('up', flush=True); "
        "c, _ = s.accept(); c.send(b'x'); print(repr(c.recv(9)))"
    )
    async with restored(template, tmp_path / "m", Forward("web", 8080)) as (machine, channel):
        running = await start_command(channel, ["python3", "-c", server])
        assert await anext(running.stdout) == b"up\n"
        with socket.create_connection(("127.0.0.1", (await machine.ports())["web"]), 10) as peer:
            peer.settimeout(30)
            assert await asyncio.to_thread(peer.recv, 1) == b"x"
            resumed = await channel.resume(Identity("again", secrets.token_hex(16), "second"))
            assert (resumed.dropped, resumed.generation) == (1, "second")
            assert (await channel.hello()).generation == "second"
            _, out, err = await communicate(running)
            assert b"ConnectionAbortedError" in err or out in (b"b''\n", b"")


@asynchronous
async def test_an_agent_that_dies_is_started_anew(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (machine, channel):
        generation = (await channel.hello()).generation
        command = await start_command(channel, None, f"setsid sleep 999 & kill -9 {AGENT}; wait")
        with pytest.raises(OutcomeUnknown):
            await communicate(command)
        await channel.close()
        async with await machine.channel() as second:
            assert (await second.hello()).generation == generation
            assert await output(second, "pgrep -x sleep || echo none") == "none\n"
        assert "started anew" in await machine.console()


@asynchronous
async def test_a_torn_frame_does_not_spoil_the_port_for_the_next_host(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (machine, _):
        path = machine.folder / "agent.3.sock"
        for rubbish in (wire.encode(wire.Kind.INPUT, 5, bytes(60_000))[:900], os.urandom(3000), b"S"):
            with socket.socket(socket.AF_UNIX) as rude:
                rude.connect(f"/proc/self/fd/{os.open(machine.folder, os.O_PATH)}/agent.3.sock")
                rude.sendall(rubbish)
            async with await Channel.connect(path) as channel:
                assert await output(channel, "echo fine") == "fine\n"


@asynchronous
async def test_a_host_that_leaves_takes_its_commands_along(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (machine, channel):
        other = await machine.channel()
        doomed = await start_command(other, None, "setsid sleep 999 & yes")
        await anext(doomed.stdout)
        await other.close()
        await output(channel, "while pgrep -x 'sleep|yes' >/dev/null; do :; done", timeout=30)


@asynchronous
async def test_all_ports_work_side_by_side(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (machine, channel):
        everyone = [channel, *[await machine.channel() for _ in range(5)]]
        answers = await asyncio.gather(*(output(one, f"echo {n}") for n, one in enumerate(everyone)))
        assert [int(answer) for answer in answers] == list(range(6))
        for one in everyone[1:]:
            await one.close()


@asynchronous
async def test_bytes_cross_unchanged(template: Template, tmp_path: Path) -> None:
    block = os.urandom(MIB)
    wanted, got = hashlib.sha256(block * 64), hashlib.sha256()
    async with restored(template, tmp_path / "m") as (_, channel):
        assert (
            await files.write(channel, "/var/tmp/big", (block for _ in range(64)), mode=0o600, owner="nobody")
            == 64 * MIB
        )
        async for chunk in files.read(channel, "/var/tmp/big"):
            got.update(chunk)
        assert got.digest() == wanted.digest()
        about = await files.stat(channel, "/var/tmp/big")
        assert (about.mode, about.uid, about.size) == (0o600, 65534, 64 * MIB)
        _, out, _ = await run(channel, ["cat", "/var/tmp/big"], user="nobody")
        assert hashlib.sha256(out).digest() == wanted.digest()
        _, out, _ = await run(channel, ["sha256sum"], stdin=block * 8)
        assert out.split()[0].decode() == hashlib.sha256(block * 8).hexdigest()


@asynchronous
async def test_a_full_disk_is_an_errno_and_leaves_nothing(template: Template, tmp_path: Path) -> None:
    async with restored(template, tmp_path / "m") as (_, channel):
        await output(channel, "mkdir /mnt/small && mount -t tmpfs -o size=1m tmpfs /mnt/small")
        with pytest.raises(GuestFileError, match="No space left") as caught:
            await files.write(channel, "/mnt/small/f", bytes(2 * MIB))
        assert caught.value.errno == 28
        assert await files.list(channel, "/mnt/small") == ()


SERVICES = [
    {
        "name": "tick", "user": "nobody",
        "command": ["/bin/sh", "-c", "echo up; id -un; echo $COLOUR; exec sleep 1000"],
        "env": {"COLOUR": "blue"}, "before": "mkdir /run/tick", "restart": "always", "restart_delay": 0.2,
        "ready": "test -d /run/tick", "ready_timeout": 30,
    },
    {"name": "once", "command": ["/bin/sh", "-c", "exit 4"], "restart": "never"},
    {"name": "shy", "command": ["sleep", "1000"], "ready": "false", "ready_timeout": 1},
    {"name": "noisy", "command": ["/bin/sh", "-c", "yes 0123456789 | head -c 6000000; exec sleep 1000"]},
    {"name": "absent", "command": ["/no/such/program"], "restart": "never"},
]  # fmt: skip


@asynchronous
async def test_services_start_in_order_and_come_back(template: Template, tmp_path: Path) -> None:
    async def states(*arguments: str) -> dict[str, dict[str, object]]:
        _, out, _ = await run(channel, ["stormcell-guest", "service", *arguments], timeout=90)
        answer: dict[str, dict[str, object]] = json.loads(out)["services"]
        return answer

    async with restored(template, tmp_path / "m") as (_, channel):
        await files.write(channel, "/etc/stormcell/services.json", json.dumps(SERVICES).encode(), parents=True)
        await states("load")
        await output(channel, "until test $(wc -l < /run/stormcell/log/tick.log) = 3; do sleep 0.1; done")
        loaded = await states("status")
        for _ in range(200):
            if loaded["once"]["state"] != "running":
                break
            loaded = await states("status")
        assert list(loaded) == ["tick", "once", "shy", "noisy", "absent"]
        assert loaded["tick"]["state"] == "running" and loaded["shy"]["state"] == "not ready"
        assert (loaded["once"]["state"], loaded["once"]["last_exit"]) == ("failed", {"exit_code": 4, "signal": None})
        assert loaded["absent"]["state"] == "failed" and "No such file" in str(loaded["absent"]["reason"])
        assert "No such file" in await output(channel, "cat /run/stormcell/log/absent.log")
        assert await output(channel, "cat /run/stormcell/log/tick.log") == "up\nnobody\nblue\n"

        pid, began = loaded["tick"]["pid"], loaded["tick"]["start_time"]
        assert (await output(channel, f"cut -d')' -f2 /proc/{pid}/stat")).split()[19] == str(began)
        assert await output(channel, f"cat /proc/{pid}/cgroup") == "0::/services/tick\n"
        await output(channel, f"rmdir /run/tick && kill -9 {pid}")
        tick = loaded["tick"]
        for _ in range(200):
            tick = (await states("status"))["tick"]
            if tick["state"] == "running" and tick["pid"] != pid:
                break
        assert tick["restarts"] == 1 and tick["last_exit"] == {"exit_code": None, "signal": 9}
        assert json.loads(await output(channel, "cat /run/stormcell/services.json"))["tick"]["pid"] == tick["pid"]

        assert (await states("stop", "tick"))["tick"]["state"] == "stopped"
        assert await output(channel, "cat /sys/fs/cgroup/services/tick/cgroup.procs") == ""
        await output(channel, "rmdir /run/tick || true")
        assert (await states("start", "tick"))["tick"]["state"] == "running"
        log = "/run/stormcell/log/noisy.log"
        await output(
            channel, f"until tail -n1 {log} | grep -q '^0123' && [ $(stat -c %s {log}) -lt 4194304 ]; do :; done"
        )
