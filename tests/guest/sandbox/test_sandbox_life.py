import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormcell import AsyncSandbox, Sandbox
from stormcell.machine.channel import Channel
from stormcell.sandbox import admission
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.record import Record
from stormcell.spec.errors import (
    HostError,
    MachineDied,
    NoSpace,
    OutcomeUnknown,
    SandboxError,
    SandboxNotFound,
    SpecError,
    TemplateNotFound,
)
from stormcell.spec.home import Home


def names(home: Home) -> list[str]:
    return sorted(entry.name for entry in home.sandboxes.iterdir()) if home.sandboxes.exists() else []


def test_create_returns_a_guest_with_its_own_identity(home, template):
    with Sandbox.create(template) as one, Sandbox.create(template) as two:
        script = "cat /etc/machine-id /proc/sys/kernel/hostname; head -c 16 /dev/urandom | od -An -tx1; date +%s"
        seen = [sbx.exec(script).text.split("\n") for sbx in (one, two)]
        for n in range(3):
            assert seen[0][n] != seen[1][n]
        assert [seen[0][1], seen[1][1]] == [one.id, two.id]
        assert all(abs(int(lines[3]) - time.time()) < 60 for lines in seen)


def test_raw_skips_the_identity_and_the_record_says_so(home, template):
    with Sandbox.create(template, raw=True) as sbx:
        record = Record.read(sbx.folder)
        assert record is not None
        assert record.raw
        assert sbx.exec("cat /proc/sys/kernel/hostname").text.strip() != sbx.id


def test_the_record_names_the_machine_the_owner_and_the_rest(home, template):
    with Sandbox.create(template, ttl_seconds=123, metadata={"who": "me"}, open_ports={"web": 8080}) as sbx:
        record = Record.read(sbx.folder)
        assert record is not None
        assert (record.state, record.ttl_seconds, record.metadata) == ("running", 123, {"who": "me"})
        assert (record.template, record.template_name) == (template.digest, "base")
        assert record.owner == ProcessRef.here()
        assert record.machine is not None
        assert record.machine.alive()
        assert record.ports == dict(sbx.ports)
        assert oct(sbx.folder.stat().st_mode & 0o777) == "0o700"
        assert sbx.memory_pss() > 10 << 20


def test_an_open_port_reaches_the_guest(home, template):
    import urllib.request

    with Sandbox.create(template, open_ports={"web": 8080}) as sbx:
        sbx.filesystem.write("/srv/hello", b"from the guest")
        with sbx.start(["python3", "-m", "http.server", "8080", "--directory", "/srv"]):
            deadline = time.monotonic() + 120
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{sbx.ports['web']}/hello", timeout=30) as answer:
                        assert answer.read() == b"from the guest"
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.2)


def test_the_guest_has_no_way_out(home, template, sbx):
    result = sbx.exec(
        "python3 -c \"import socket; socket.create_connection(('10.0.2.2', 1), timeout=3)\" || echo refused", timeout=60
    )
    assert "refused" in result.text


def test_kill_is_evidence_twice_is_harmless_and_use_afterwards_an_error(home, template):
    sbx = Sandbox.create(template)
    record = Record.read(sbx.folder)
    assert record is not None and record.machine is not None
    evidence = sbx.kill()
    (process,) = evidence.processes
    assert (process.pid, process.start_time) == (record.machine.pid, record.machine.start_time)
    assert (process.gone, process.exit_status) == (True, -9)
    assert evidence.files.gone
    assert not sbx.folder.exists()
    assert not Path(f"/proc/{process.pid}").exists()
    assert json.loads(json.dumps(evidence.as_dict()))["complete"] is True
    assert sbx.kill().already_gone
    for use in (
        lambda: sbx.exec("true"),
        lambda: sbx.filesystem.read("/etc/passwd"),
        lambda: sbx.pause(),
        lambda: Sandbox.attach(sbx.id),
    ):
        with pytest.raises(SandboxNotFound):
            use()


def test_pause_stops_the_guests_clock_and_resume_goes_on(home, template):
    with Sandbox.create(template) as sbx:
        began = time.monotonic()
        before = float(sbx.exec("cut -d' ' -f1 /proc/uptime").text)
        sbx.pause()
        with pytest.raises(SandboxError, match="is paused"):
            sbx.exec("true")
        time.sleep(6)
        sbx.resume()
        after = float(sbx.exec("cut -d' ' -f1 /proc/uptime").text)
        assert after - before < time.monotonic() - began - 5.9
        sbx.resume()


def test_a_guest_that_dies_during_a_command_leaves_its_outcome_unknown(home, template):
    with Sandbox.create(template) as sbx:
        with pytest.raises(OutcomeUnknown, match="guest-panic") as caught:
            sbx.exec("echo c > /proc/sysrq-trigger; sleep 60")
        assert "sysrq" in caught.value.detail
        with pytest.raises(MachineDied, match="ended by itself"):
            sbx.exec("true")
        evidence = sbx.kill()
        assert evidence.complete


def test_a_kill_from_elsewhere_during_a_command(home, template):
    from stormcell.sandbox.ending import end_by_id

    async def main() -> None:
        sbx = await AsyncSandbox.create(template)
        begun = asyncio.Event()
        work = asyncio.create_task(sbx.exec("echo begun; sleep 600", on_stdout=lambda _: begun.set()))
        await begun.wait()
        evidence = await end_by_id(sbx.id, "killed by another")
        assert evidence.complete
        with pytest.raises(OutcomeUnknown, match="removed during the work"):
            await work
        with pytest.raises(SandboxNotFound):
            await sbx.exec("true")
        assert (await sbx.kill()).already_gone
        await sbx.close()

    asyncio.run(main())


def test_two_processes_use_one_sandbox_at_the_same_time(home, template):
    with Sandbox.create(template) as sbx:
        code = (
            "import sys; from stormcell import Sandbox; s = Sandbox.attach(sys.argv[1])\n"
            "print(s.exec('cat; echo other', stdin=b'in ').text, end='')\n"
            "s.filesystem.write('/root/from-other', b'x'); s.close()"
        )
        with sbx.start("sleep 600"):
            others = [subprocess.Popen([sys.executable, "-c", code, sbx.id], stdout=subprocess.PIPE) for _ in range(2)]
            assert sbx.exec("echo mine").text == "mine\n"
            assert [other.communicate(timeout=200)[0] for other in others] == [b"in other\n"] * 2
        assert sbx.filesystem.exists("/root/from-other")


def test_a_command_dies_with_the_process_that_ran_it(home, template, eventually):
    with Sandbox.create(template) as sbx:
        code = "import sys; from stormcell import Sandbox; Sandbox.attach(sys.argv[1]).exec('echo on; sleep 4327')"
        other = subprocess.Popen([sys.executable, "-c", code, sbx.id])
        assert eventually(lambda: sbx.exec("pgrep -f 'sleep 432[7]'").ok)
        other.kill()
        other.wait()
        assert eventually(lambda: not sbx.exec("pgrep -f 'sleep 432[7]'").ok)


def test_a_cancelled_command_is_killed_in_the_guest(home, template):
    async def main() -> None:
        async with await AsyncSandbox.create(template) as sbx:
            begun = asyncio.Event()
            script = "setsid sleep 4328 & echo begun; sleep 4328"
            work = asyncio.create_task(sbx.exec(script, on_stdout=lambda _: begun.set()))
            await begun.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await sbx.exec("while pgrep -f 'sleep 432[8]'; do sleep 0.1; done", timeout=60, check=True)

    asyncio.run(main())


def test_a_machine_boots_again_from_the_disk_that_it_left(home, template):
    async def main() -> None:
        async with await AsyncSandbox.create(template, open_ports={"web": 8080}) as sbx:
            first = await sbx.boot_id()
            await sbx.exec("echo kept > /root/synced; sync; echo lost > /root/unsynced", check=True)
            with pytest.raises(SandboxError, match="still runs"):
                await sbx.cold_boot()
            evidence = await sbx.power_cut()
            assert evidence.process_gone
            await sbx.cold_boot(timeout=200)
            assert await sbx.boot_id() != first
            assert (await sbx.exec("cat /root/synced /proc/sys/kernel/hostname")).text == f"kept\n{sbx.id}\n"
            again = await AsyncSandbox.attach(sbx.id)
            assert again.ports == sbx.ports
            assert (await again.exec("true")).ok
            await again.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"template": "no-such-template"}, TemplateNotFound),
        ({"ttl_seconds": 0}, SpecError),
        ({"metadata": {"a": 1}}, SpecError),
        ({"open_ports": {"web": 99999}}, SpecError),
    ],
)
def test_bad_arguments_start_nothing(home, template, arguments, error):
    before = names(home)
    with pytest.raises(error):
        Sandbox.create(**({"template": template} | arguments))
    assert names(home) == before


def test_a_create_that_fails_leaves_nothing(home, template, monkeypatch, tmp_path):
    import dataclasses

    torn = tmp_path / "state"
    torn.write_bytes(b"no device state")
    there = names(home)
    before = set(Path("/proc").iterdir())
    with pytest.raises(Exception, match=r"saved state|QEMU") as caught:
        Sandbox.create(dataclasses.replace(template, state=torn))
    assert not isinstance(caught.value, AssertionError)
    assert names(home) == there
    assert not [entry for entry in set(Path("/proc").iterdir()) - before if _is_of(home, entry)]

    async def unanswered(*_: object, **__: object) -> None:
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(Channel, "resume", unanswered)
    with pytest.raises(SandboxError):
        Sandbox.create(template)
    assert names(home) == there


def _is_of(home: Home, process: Path) -> bool:
    try:
        return str(home.sandboxes).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_create_that_is_cancelled_leaves_nothing(home, template):
    before = names(home)

    async def main() -> None:
        for delay in (0.0, 0.02, 0.06, 0.1, 0.2):
            work = asyncio.create_task(AsyncSandbox.create(template))
            await asyncio.sleep(delay)
            work.cancel()
            try:
                made = await work
            except asyncio.CancelledError:
                pass
            else:
                await made.kill()
            assert names(home) == before

    asyncio.run(main())


def test_a_host_without_room_refuses(home, template, monkeypatch):
    before = names(home)
    monkeypatch.setattr(admission, "memory_available", lambda: 50 << 20)
    with pytest.raises(HostError, match="50 MiB are available"):
        Sandbox.create(template)
    monkeypatch.undo()
    monkeypatch.setenv("STORMCELL_HOME", str(home.state.parent))
    monkeypatch.setattr(admission, "disk_free", lambda _: 1 << 20)
    with pytest.raises(NoSpace):
        Sandbox.create(template)
    assert names(home) == before


def test_the_host_is_as_it_was(home, template):
    def said(*command: str) -> str:
        if shutil.which(command[0]) is None:
            return ""
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    def host() -> dict[str, object]:
        return {
            "mounts": Path("/proc/self/mounts").read_text(),
            "links": [line.split(":")[1] for line in said("ip", "-o", "link").splitlines()],
            "qdiscs": said("tc", "qdisc"),
            "rules": said("nft", "-s", "list", "ruleset"),  # without their counters
            "hostname": os.uname().nodename,
        }

    def cgroups() -> set[str]:
        return {str(path) for path in Path("/sys/fs/cgroup").glob("*/*/")}

    before, clock = host(), time.time() - time.monotonic()
    for _ in range(3):  # the host's own services come and go, ours would be there every time
        groups = cgroups()
        with Sandbox.create(template, open_ports={"web": 80}) as sbx:
            sbx.exec("date -s 2001-01-01; hostname other; ip link set eth0 down; mount -t tmpfs none /mnt", check=True)
        new = cgroups() - groups
        if not new:
            break
    assert not new
    assert host() == before
    assert abs(time.time() - time.monotonic() - clock) < 5


def test_what_was_let_go_can_still_be_killed_and_nothing_else(home, template):
    made = Sandbox.create(template)
    record = Record.read(made.folder)
    assert record is not None and record.machine is not None
    made.close()
    for use in (lambda: made.exec("true"), made.fork, lambda: made.snapshot("x"), made.pause):
        with pytest.raises(SandboxError, match="has let go"):
            use()
    assert made.kill().complete
    assert not record.machine.alive()
    assert not made.folder.exists()
    assert made.kill().already_gone
