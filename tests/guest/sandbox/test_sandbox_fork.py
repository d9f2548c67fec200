"""Forks of running sandboxes: what goes on in the child, what is its own, and what the parent notices."""

import hashlib
import time
from pathlib import Path

import pytest

from stormcell import Sandbox
from stormcell.sandbox import layers, snapshots
from stormcell.sandbox.bridge import Bridge
from stormcell.sandbox.record import Record
from stormcell.spec.errors import SandboxNotFound, SpecError

IDENTITY = """
cat /etc/machine-id /proc/sys/kernel/hostname /run/stormcell/generation /proc/sys/kernel/random/uuid
head -c 16 /dev/urandom | od -An -tx1
python3 - <<'END'
import os, socket, uuid
print(hash("a string"), uuid.uuid4())
quiet = socket.create_server(("127.0.0.1", 0))
print(quiet.getsockname()[1])
call = socket.create_connection(quiet.getsockname())
print(call.getsockname()[1])
END
"""
SEQUENCE = """
import socket, struct, sys
# the first packet of a new connection, as it leaves: its source port and its initial sequence number
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
raw.bind(("lo", 0)); raw.settimeout(20)
server = socket.create_server(("127.0.0.1", 4242))
socket.create_connection(("127.0.0.1", 4242))
while True:
    packet = raw.recv(2048)
    ip = packet[14:]
    tcp = ip[(ip[0] & 15) * 4:]
    if ip[9] == 6 and tcp[13] & 0x3F == 2 and tcp[2:4] == struct.pack("!H", 4242):
        print(*struct.unpack("!H", tcp[:2]), *struct.unpack("!I", tcp[4:8])); break
"""


@pytest.fixture
def parent(home, template):
    with Sandbox.create(template, ttl_seconds=600, open_ports={"web": 8080}, metadata={"who": "parent"}) as made:
        yield made


def clock_error(sbx):
    """Seconds that the guest's clock is ahead; the shortest of some questions says it best."""
    seen = []
    for _ in range(8):
        asked = time.time()
        shown = float(sbx.exec("date +%s.%N").text)
        answered = time.time()
        seen.append((answered - asked, shown - (asked + answered) / 2))
    return min(seen)[1], min(seen)[0]


def boot_again(sbx):
    """As machine.crash does: the power goes, then it boots from its disk."""

    async def work():
        await sbx._twin.power_cut()
        await sbx._twin.cold_boot()

    Bridge.current().run(work())


def test_memory_disk_and_processes_go_on_in_the_child_and_in_the_parent(parent):
    parent.exec(
        "echo on-disk > /root/file; sync; echo in-cache >> /root/file; mkdir /run/ram; echo ram > /run/ram/file"
    )
    parent.exec("(i=0; while :; do i=$((i+1)); echo $i > /run/ram/count; sleep 0.05; done) >/dev/null 2>&1 & echo $!")
    child = parent.fork(metadata={"who": "child"})
    with child:
        for sbx in (child, parent):
            assert sbx.exec("cat /root/file /run/ram/file").text == "on-disk\nin-cache\nram\n"
            # `echo >` makes the file empty for a moment
            first = sbx.exec('until n=$(cat /run/ram/count) && test -n "$n"; do :; done; echo $n', check=True).text
            later = f'until test "$(cat /run/ram/count)" -gt {int(first)} 2>/dev/null; do sleep 0.1; done'
            sbx.exec(later, timeout=60, check=True)
        child.exec("echo child > /root/file; sync")
        parent.exec("echo parent > /root/file; sync")
        assert child.exec("cat /root/file").text == "child\n"
        assert parent.exec("cat /root/file").text == "parent\n"
        record = Record.read(child.folder)
        assert record is not None
        assert (record.parent, record.metadata, record.ttl_seconds) == (parent.id, {"who": "child"}, 600)
        assert set(child.ports) == {"web"}
        assert child.ports["web"] != parent.ports["web"]


def test_every_child_is_somebody_else(parent):
    parent.exec("python3 -c 'pass'")
    children = parent.fork(3)
    try:
        everybody = [parent, *children]
        seen = [sbx.exec(IDENTITY).text.split() for sbx in everybody]
        for word in zip(*seen, strict=True):
            assert len(set(word)) > 1, word
        columns = list(zip(*seen, strict=True))
        assert [len(set(columns[n])) for n in range(4)] == [4, 4, 4, 4], columns
        assert list(columns[1]) == [sbx.id for sbx in everybody]
        first = [sbx.exec(["python3", "-c", SEQUENCE]).text.split() for sbx in everybody]
        assert len({port for port, _ in first}) == 4, first
        assert len({number for _, number in first}) == 4, first
        # a host that stands still while it steps a clock leaves that one late
        off = [(abs(error) - doubt, error, doubt) for error, doubt in map(clock_error, everybody)]
        assert min(off)[0] < 0.05 and min(off[1:])[0] < 0.05, off
        assert max(off)[0] < 10, off
    finally:
        for child in children:
            child.kill()


def test_a_fork_of_a_fork_outlives_both_and_its_layers_go_last(parent, home):
    parent.exec("echo one > /root/file")
    child = parent.fork()
    child.exec("echo two >> /root/file")
    grandchild = child.fork()
    assert grandchild.exec("cat /root/file").text == "one\ntwo\n"
    parent.kill()
    child.kill()
    assert grandchild.exec("cat /root/file; md5sum /usr/bin/python3.11").exit_code == 0
    assert len(layers.collect(home.state, dry_run=True)) == 0
    assert list(layers.folder_of(home.state).iterdir()) != []
    grandchild.kill()
    assert list(layers.folder_of(home.state).iterdir()) == []


def test_a_deep_chain_is_joined_and_keeps_every_byte(parent, home):
    digest = parent.exec("head -c 3000000 /dev/urandom > /root/random; sync; sha256sum < /root/random").text
    at, generations = parent, []
    for depth in range(layers.DEEP + 2):
        child = at.fork()
        generations.append(child)
        assert child.exec("sha256sum < /root/random").text == digest
        child.exec(f"echo {depth} >> /root/log; sync")
        at = child
    record = Record.read(at.folder)
    assert record is not None
    assert len(record.layers) <= layers.DEEP
    lines = at.exec("cat /root/log; echo 3 > /proc/sys/vm/drop_caches; sha256sum < /root/random").text.split("\n")
    assert lines[: layers.DEEP + 2] == [str(n) for n in range(layers.DEEP + 2)]
    assert lines[layers.DEEP + 2] == digest.strip()
    for child in generations:
        child.kill()


def recorded(sbx):
    record = Record.read(sbx.folder)
    assert record is not None and record.machine is not None
    return record


def own_memory(sbx):
    """Bytes of the machine's process that nobody shares."""
    text = Path(f"/proc/{recorded(sbx).machine.pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private_"))


def test_children_share_what_would_cost_more_to_copy(parent, home):
    """150 MB of the parent's own, five children: the memory is written once, and none of them has the pages itself."""
    digest = parent.exec("head -c 150000000 /dev/urandom > /dev/shm/random; sha256sum < /dev/shm/random").text
    children = parent.fork(5)
    try:
        assert [own_memory(child) < 120 << 20 for child in children] == [True] * 5
        records = [recorded(child) for child in children]
        assert {record.memory for record in records} == {records[0].layers[-1]}
        assert children[0].exec("sha256sum < /dev/shm/random").text == digest
        grandchild = children[1].fork()
        children[1].kill()
        children.append(grandchild)
        parent.kill()
        assert grandchild.exec("sha256sum < /dev/shm/random").text == digest
        grandchild.snapshot("flat")
    finally:
        for child in children:
            child.kill()
    with Sandbox.restore("flat") as again:
        assert again.exec("sha256sum < /dev/shm/random").text == digest
    snapshots.remove(home, "flat")
    assert list(layers.folder_of(home.state).iterdir()) == []


def test_a_command_in_flight_answers_its_caller_once_and_is_an_orphan_in_the_child(parent):
    waits = "echo begun; until test -e /run/go; do sleep 0.1; done; echo $$ >> /root/ended; echo ended; exit 7"
    with parent.start(waits) as command:
        assert next(command.stdout()) == b"begun\n"
        child = parent.fork()
        with child:
            (orphan,) = child.orphans
            assert orphan.command.startswith("/bin/sh -c echo begun")
            assert child.exec(["test", "-d", f"/proc/{orphan.pid}"]).exit_code == 0
            for sbx in (child, parent):
                sbx.exec("touch /run/go", check=True)
            result = command.wait()
            assert result.exit_code == 7
            deadline = time.monotonic() + 60
            while child.exec(["test", "-d", f"/proc/{orphan.pid}"]).exit_code == 0:
                assert time.monotonic() < deadline
            for sbx in (child, parent):
                assert len(sbx.exec("cat /root/ended").text.split()) == 1
            assert parent.orphans == ()


def test_a_paused_sandbox_stays_so_and_its_child_runs(parent):
    parent.exec("echo kept > /run/file")
    parent.pause()
    child = parent.fork()
    with child:
        assert child.exec("cat /run/file").text == "kept\n"
    parent.resume()
    assert parent.exec("cat /run/file").text == "kept\n"


def test_forks_of_a_paused_sandbox_begin_at_the_same_instant_whenever_they_are_made(parent):
    parent.exec("echo kept > /root/file")
    parent.pause()
    seen = []
    for number in range(4):
        if number == 2:
            time.sleep(3)
        with parent.fork() as child:
            seen.append(float(child.exec("cat /proc/uptime").text.split()[0]))
            assert child.exec("cat /root/file").text == "kept\n"
            child.exec(f"echo {number} > /root/file; sync")
    assert abs(min(seen[2:]) - min(seen[:2])) < 2, seen  # noise only adds to what is shown
    parent.resume()
    assert parent.exec("cat /root/file").text == "kept\n"


def test_a_cold_booted_sandbox_can_be_forked_and_its_child_boots_again(parent):
    parent.exec("echo kept > /root/file; sync")
    boot_again(parent)
    parent.exec("echo ram > /run/file")
    child = parent.fork()
    with child:
        assert child.exec("cat /root/file /run/file").text == "kept\nram\n"
        child.exec("echo child >> /root/file; sync")
        boot_again(child)
        assert child.exec("cat /root/file; ls /run/file").text == "kept\nchild\n"
    parent.exec("sync")
    boot_again(parent)
    assert parent.exec("cat /root/file").text == "kept\n"


def test_raw_children_are_told_nothing(parent):
    """They begin as equals; urandom is not compared, for interrupts stir it from the first moment on."""
    parent.exec("head -c 1000000 /dev/urandom > /dev/shm/random")
    children = parent.fork(2, raw=True)
    try:
        script = "cat /proc/sys/kernel/hostname /run/stormcell/generation /etc/machine-id; sha256sum < /dev/shm/random"
        assert children[0].exec(script).text == children[1].exec(script).text == parent.exec(script).text
    finally:
        for child in children:
            child.kill()


@pytest.mark.parametrize("count", [0, -1, 65, True, "3", 1.5])
def test_a_number_of_children_is_checked_first(parent, count):
    with pytest.raises(SpecError, match="no number of children"):
        parent.fork(count)


def test_a_dead_parent_has_no_children(home, template):
    made = Sandbox.create(template)
    made.kill()
    with pytest.raises(SandboxNotFound):
        made.fork()


def test_pause_and_resume_keep_every_byte(parent):
    made = parent.exec("head -c 20000000 /dev/urandom > /dev/shm/random; sha256sum < /dev/shm/random").text
    assert len(made.split()[0]) == hashlib.sha256().digest_size * 2
    for _ in range(20):
        parent.pause()
        parent.resume()
    assert parent.exec("sha256sum < /dev/shm/random").text == made


def test_a_short_ttl_begins_when_all_children_are_there(parent, eventually):
    children = parent.fork(8, ttl_seconds=1)
    assert all(child.folder.exists() for child in children)
    assert eventually(lambda: not any(child.folder.exists() for child in children))
    for child in children:
        child.kill()
