import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormcell.machine.accel import choose, remembered, try_guest
from stormcell.machine.host import find_qemu
from stormcell.machine.kernel import ensure_kernel
from stormcell.machine.machine import Machine
from stormcell.machine.model import Forward
from stormcell.machine.process import identity_of, kill_and_wait, open_pidfd, read_identity
from stormcell.spec.errors import (
    MachineDied,
    MachineError,
    OutcomeUnknown,
    PortTaken,
    SandboxNotFound,
)
from stormcell.spec.home import Home
from tests.guest.microvm import BOOT_S, base_template, output, restored, shell, spec_of

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def template():
    return base_template()


def test_a_cold_boot_reaches_the_agent(template, tmp_path):
    async def story():
        spec = spec_of(template, tmp_path / "vm", memory=tmp_path / "memory")
        async with await Machine.start(spec, tmp_path / "vm") as machine:
            async with await machine.channel() as channel:
                hello = await channel.ready(BOOT_S)
                assert hello.generation == ""  # nobody resumed it
                assert hello.boot_id == (await output(channel, "cat /proc/sys/kernel/random/boot_id")).strip()
            assert await machine.status() == "running"

    asyncio.run(story())


def test_a_restored_machine_goes_on_from_the_snapshot(template, tmp_path):
    async def story():
        async with restored(template, tmp_path / "a") as (_, one), restored(template, tmp_path / "b") as (_, two):
            boots = [await output(c, "cat /proc/sys/kernel/random/boot_id") for c in (one, two)]
            assert boots[0] == boots[1]
            names = [
                await output(c, "hostname; cat /etc/machine-id; head -c 16 /dev/urandom | od -An -tx8 -w8")
                for c in (one, two)
            ]
            assert not set(names[0].split()) & set(names[1].split())
            guest_time = int(await output(one, "date +%s"))
            assert abs(guest_time - time.time()) < 30
            await output(one, "echo only-here >/root/marker && sync")
            assert not (await shell(two, "test -e /root/marker")).ok

    before = {path: path.stat().st_mtime_ns for path in (template.memory, template.disk, template.overlay)}
    asyncio.run(story())
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_kill_is_evidence(template, tmp_path):
    async def story():
        folder = tmp_path / "vm"
        machine = await Machine.start(spec_of(template, folder), folder, state=template.state)
        assert identity_of(machine.identity.pid) == machine.identity == read_identity(folder)
        evidence = await machine.kill()
        assert evidence.process_gone and evidence.status == -signal.SIGKILL and evidence.reason == "SIGKILL"
        assert identity_of(evidence.pid) != machine.identity
        assert json.loads(json.dumps(evidence.as_dict()))["pid"] == machine.identity.pid
        again = await machine.kill()
        assert again.process_gone
        with pytest.raises(MachineDied):
            await machine.status()
        with pytest.raises(SandboxNotFound):
            await Machine.attach(folder)
        await machine.close()
        await machine.close()

    asyncio.run(story())


@pytest.mark.parametrize(("key", "reason"), [("c", "guest-panic"), ("b", "guest-reset")])
def test_a_guest_that_dies_by_itself_is_noticed_with_its_reason(template, tmp_path, key, reason):
    async def story():
        async with restored(template, tmp_path / "vm") as (machine, channel):
            with pytest.raises(OutcomeUnknown):
                await shell(channel, f"echo {key} >/proc/sysrq-trigger; sleep 60")
            evidence = await machine.wait_exit(60)
            assert evidence is not None and evidence.process_gone and evidence.reason == reason
            words = {"c": "Kernel panic", "b": "sysrq: Resetting"}
            assert words[key] in machine.console_tail(200)
            with pytest.raises(SandboxNotFound):
                await Machine.attach(machine.folder)

    asyncio.run(story())


def test_a_guest_that_ended_while_nobody_looked_is_found_ended(template, tmp_path):
    async def story():
        folder = tmp_path / "vm"
        machine = await Machine.start(spec_of(template, folder), folder, state=template.state)
        try:
            async with await machine.channel() as channel:
                await channel.ready(60)
                await machine.close()
                with pytest.raises(TimeoutError):  # QEMU waits, stopped: nobody holds the machine who would end it
                    await asyncio.wait_for(shell(channel, "echo c >/proc/sysrq-trigger; sleep 60"), 5)
            with pytest.raises(SandboxNotFound, match="guest-panic") as caught:
                for _ in range(60):
                    await (await Machine.attach(folder)).close()  # it has not come to that yet
                    await asyncio.sleep(1)
            assert "Kernel panic" in (folder / "console.log").read_text() and caught.value.detail
        finally:
            pidfd = open_pidfd(machine.identity)
            if pidfd is not None:
                kill_and_wait(pidfd, 30)
        assert pidfd is None

    asyncio.run(story())


def test_a_crashed_disk_boots_again(template, tmp_path):
    async def story():
        folder = tmp_path / "vm"
        async with restored(template, folder) as (machine, channel):
            await output(channel, "echo kept >/root/kept && sync && echo lost >/root/lost")
            await machine.kill()
        again = tmp_path / "again"
        spec = spec_of(template, again, disk=folder / "disk.qcow2", memory=again / "memory")
        async with await Machine.start(spec, again) as machine, await machine.channel() as channel:
            await channel.ready(BOOT_S)
            assert await output(channel, "cat /root/kept") == "kept\n"

    asyncio.run(story())


def test_many_may_attach_and_let_go(template, tmp_path):
    async def story():
        async with restored(template, tmp_path / "vm") as (machine, _):
            other = await Machine.attach(machine.folder)
            assert other.identity == machine.identity
            async with await other.channel() as channel:
                assert await output(channel, "echo hi") == "hi\n"
            await other.pause()
            assert await machine.status() == "paused"
            await machine.cont()
            assert await other.status() == "running"
            await other.close()
            assert await machine.status() == "running"

    asyncio.run(story())


def test_a_machine_outlives_the_process_that_started_it(template, tmp_path):
    code = """
import asyncio, os, sys
from pathlib import Path
from stormcell.machine.machine import Machine
from tests.guest.microvm import base_template, spec_of
template, folder = base_template(), Path(sys.argv[1])
async def story():
    await Machine.start(spec_of(template, folder), folder, state=template.state)
    print("started", flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(story())
"""
    folder = tmp_path / "vm"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL and done.stdout == "started\n", done.stderr

    async def story():
        machine = await Machine.attach(folder)
        async with await machine.channel() as channel:
            assert await output(channel, "echo alive") == "alive\n"
        evidence = await machine.kill()
        assert evidence.process_gone and evidence.status is None  # not our child
        await machine.close()

    asyncio.run(story())


def test_ports_lead_into_the_guest_and_nothing_leads_out(template, tmp_path):
    serve = (
        "import socket; s = socket.create_server(('0.0.0.0', 8080)); print('up', flush=True); "
        "c, _ = s.accept(); c.sendall(b'from the guest'); c.close()"
    )

    async def story():
        async with restored(template, tmp_path / "vm", Forward("web", 8080)) as (machine, channel):
            ports = await machine.ports()
            assert set(ports) == {"web"} and ports["web"] > 0
            await output(channel, f'python3 -c "{serve}" >/tmp/up 2>&1 & until grep -q up /tmp/up; do sleep 0.1; done')
            reader, writer = await asyncio.open_connection("127.0.0.1", ports["web"])
            async with asyncio.timeout(60):
                assert await reader.read() == b"from the guest"
            writer.close()
            with socket.create_server(("127.0.0.1", 0)) as host:
                reach = f"import socket; socket.create_connection(('10.0.2.2', {host.getsockname()[1]}), timeout=3)"
                assert not (await shell(channel, f'python3 -c "{reach}"')).ok

    asyncio.run(story())


def test_a_taken_port_is_one_clear_error_and_leaves_no_process(template, tmp_path):
    async def story():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            folder = tmp_path / "vm"
            spec = spec_of(template, folder, forwards=(Forward("web", 80, port),))
            with pytest.raises(PortTaken, match=str(port)):
                await Machine.start(spec, folder, state=template.state)
        return read_identity(folder)

    identity = asyncio.run(story())
    assert identity is None or identity_of(identity.pid) != identity


def test_a_broken_state_is_an_error_and_leaves_no_process(template, tmp_path):
    state = tmp_path / "state"
    state.write_bytes(template.state.read_bytes()[:20_000])

    async def story():
        folder = tmp_path / "vm"
        with pytest.raises(MachineError):
            await Machine.start(spec_of(template, folder), folder, state=state)
        return read_identity(folder)

    identity = asyncio.run(story())
    assert identity is not None and identity_of(identity.pid) != identity


def test_a_start_that_is_cancelled_leaves_no_process(template, tmp_path):
    async def story(delay):
        folder = tmp_path / f"vm{delay}"
        task = asyncio.create_task(Machine.start(spec_of(template, folder), folder, state=template.state))
        await asyncio.sleep(delay)
        task.cancel()
        try:
            machine = await task
        except asyncio.CancelledError:
            pass
        else:  # it was quicker than the cancellation
            await machine.kill()
            await machine.close()
        return read_identity(folder)

    for delay in (0, 0.005, 0.02, 0.04, 0.08):
        identity = asyncio.run(story(delay))
        assert identity is None or identity_of(identity.pid) != identity


def test_two_machines_in_one_folder_are_refused(template, tmp_path):
    async def story():
        async with restored(template, tmp_path / "vm") as (machine, channel):
            with pytest.raises(MachineError, match="already runs"):
                await Machine.start(spec_of(template, machine.folder), machine.folder, state=template.state)
            assert await output(channel, "echo unharmed") == "unharmed\n"
            other = await Machine.attach(machine.folder)
            await other.close()

    asyncio.run(story())


def test_an_endless_console_fills_neither_disk_nor_machine(template, tmp_path):
    async def story():
        async with restored(template, tmp_path / "vm") as (machine, channel):
            await output(
                channel, "for n in 1 2 3 4 5 6; do seq 10000 20000; done >/dev/console; echo END >/dev/console"
            )
            async with asyncio.timeout(60):
                while not (await machine.console(1)).endswith("END"):  # noqa: ASYNC110 - it is read when asked for
                    await asyncio.sleep(0.1)
            assert (machine.folder / "console.log").stat().st_size <= 256 * 1024 + 4096

    asyncio.run(story())


def test_the_vmm_is_confined(template, tmp_path):
    async def story():
        async with restored(template, tmp_path / "vm") as (machine, _):
            status = Path(f"/proc/{machine.identity.pid}/status").read_text()
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            assert fields["Seccomp"].strip() == "2" and fields["NoNewPrivs"].strip() == "1"
            open_files = set()
            for fd in Path(f"/proc/{machine.identity.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                    open_files.add(str(fd.readlink()))
            allowed = (str(tmp_path), str(template.folder), str(Home.current().cache), "/dev/null", "/dev/urandom")
            assert all(name.startswith((*allowed, "socket:", "anon_inode:", "pipe:")) for name in open_files), (
                open_files
            )

    asyncio.run(story())


def test_acceleration_is_what_a_guest_proved(monkeypatch):
    monkeypatch.delenv("STORMCELL_ACCEL", raising=False)
    home = Home.current()
    kernel = ensure_kernel(home)
    choice = asyncio.run(choose(home, kernel))
    assert choice.accel in ("kvm", "tcg") and choice.reason
    if "did not start" in choice.reason:
        assert remembered(home, kernel) == choice
    started = asyncio.run(try_guest(find_qemu(), kernel, accel="tcg", deadline=120))
    assert started.accel == "tcg" and "a test guest started" in started.reason


def test_a_guest_that_does_not_start_in_time_is_no_accelerator():
    kernel = ensure_kernel(Home.current())
    choice = asyncio.run(try_guest(find_qemu(), kernel, accel="tcg", deadline=0.05))
    assert choice.reason == "software emulation, because the guest did not start in 0.05 s"
