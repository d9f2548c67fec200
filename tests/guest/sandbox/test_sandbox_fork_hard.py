"""Forks at bad moments: under load, under a fault, two at once, without room, and killed at every step."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from stormcell import Sandbox
from stormcell.machine.qmp import Monitor
from stormcell.sandbox import gc, layers
from stormcell.sandbox.bridge import Bridge
from stormcell.sandbox.record import Record
from stormcell.spec.errors import MachineError

WRITER = """
import hashlib, os, sys, threading, time
# each line names its content's digest: a torn or mixed write is seen; memory holds its own sum
block, sums = bytearray(os.urandom(1 << 18)), []
def disk():
    n = 0
    while True:
        data = os.urandom(3000).hex()
        with open(f"/root/load/{n % 40}.new", "w") as file:
            file.write(hashlib.sha256(data.encode()).hexdigest() + " " + data); file.flush(); os.fsync(file.fileno())
        os.rename(f"/root/load/{n % 40}.new", f"/root/load/{n % 40}")
        n += 1
        time.sleep(0.02)
threading.Thread(target=disk, daemon=True).start()
good = hashlib.sha256(block).hexdigest()
while True:
    for at in range(0, 1 << 18, 4096):
        block[at], block[at] = block[at] ^ 255, block[at]
    state = "good" if hashlib.sha256(block).hexdigest() == good else "bad"
    with open("/run/memory", "a") as file: file.write(state + "\\n")
    time.sleep(0.05)
"""
CHECK = """
import hashlib, os, sys
seen = 0
for name in os.listdir("/root/load"):
    if not name.endswith(".new"):
        digest, data = open(f"/root/load/{name}").read().split()
        assert hashlib.sha256(data.encode()).hexdigest() == digest, name
        seen += 1
assert seen > 5, seen
states = set(open("/run/memory").read().split())
assert states == {"good"}, states
print("all right", seen)
"""


@pytest.fixture
def parent(home, template):
    with Sandbox.create(template, ttl_seconds=900) as made:
        yield made


def boot_again(sbx):
    async def work():
        await sbx._twin.power_cut()
        await sbx._twin.cold_boot()

    Bridge.current().run(work())


def test_writes_in_flight_go_on_in_every_child(parent):
    parent.filesystem.write("/root/writer.py", WRITER.encode())
    written = "until test $(ls /root/load | wc -l) -gt 10 -a -s /run/memory; do sleep 0.2; done"
    parent.exec(f"mkdir /root/load; python3 /root/writer.py >/dev/null 2>&1 & {written}", timeout=120, check=True)
    children = parent.fork(2)
    try:
        for sbx in (*children, parent):
            goes_on = "n=$(wc -l < /run/memory); until test $(wc -l < /run/memory) -gt $n; do sleep 0.2; done"
            sbx.exec(goes_on, timeout=60, check=True)
            assert sbx.exec(["python3", "-c", CHECK]).text.startswith("all right")
            assert "EXT4-fs error" not in sbx.exec("sync; dmesg").text
        boot_again(children[0])  # what its disk has is a whole file system, too
        assert children[0].exec("dmesg | grep -c 'EXT4-fs error'; ls /root/load | wc -l").text.split()[0] == "0"
    finally:
        for child in children:
            child.kill()


def clock_ahead(sbx):
    """Seconds that the guest's clock is ahead, at least and at most."""
    asked = time.time()
    shown = float(sbx.exec("date +%s.%N").text)
    return shown - time.time(), shown - asked


def test_a_fault_in_force_is_in_force_in_the_child(parent):
    parent.exec(
        "tc qdisc add dev lo root netem delay 300ms; mkdir /sys/fs/cgroup/small;"
        "echo 30M > /sys/fs/cgroup/small/memory.max; date -s '2031-05-05 12:00:00'"
    )
    least, most = clock_ahead(parent)
    child = parent.fork()
    with child:
        assert "delay 300ms" in child.exec("tc qdisc show dev lo").text
        assert child.exec("cat /sys/fs/cgroup/small/memory.max").text == f"{30 << 20}\n"
        # both at once (-l): ping waits for the last of several for twice the longest answer, for a first one 10 s
        told = child.exec("ping -c 2 -l 2 -q 127.0.0.1").text
        assert " 0% packet loss" in told
        assert float(told.split("/")[-3]) >= 600
        now_least, now_most = clock_ahead(child)
        assert now_least - 0.2 < most and least < now_most + 0.2, "the wall clock is as wrong as it was"
        assert child.exec("tc qdisc del dev lo root").exit_code == 0
    assert "delay 300ms" in parent.exec("tc qdisc show dev lo").text


OTHER = """
import sys
from stormcell import Sandbox
from stormcell.machine.qmp import Monitor
child = Sandbox.attach(sys.argv[1]).fork()
print(child.exec("cat /root/file").text.strip(), flush=True)
child.kill()
"""


def test_two_forks_at_once_wait_for_each_other(parent):
    parent.exec("echo same > /root/file")
    others = [
        subprocess.Popen([sys.executable, "-c", OTHER, parent.id], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]

    async def both():
        return await asyncio.gather(parent._twin.fork(), parent._twin.fork(2))

    one, two = Bridge.current().run(both())
    for twin in (one, *two):
        assert Bridge.current().run(twin.exec("cat /root/file")).text == "same\n"
    for other in others:
        assert other.communicate(timeout=200)[0] == "same\n"
    for twin in (one, *two):
        Bridge.current().run(twin.kill())
    assert parent.exec("cat /root/file").text == "same\n"
    record = Record.read(parent.folder)
    assert record is not None
    assert len(record.layers) == 4


FULL = """
import os, sys
from stormcell import Sandbox
from stormcell.machine.qmp import Monitor
from stormcell.sandbox import admission, layers
from stormcell.spec.errors import NoSpace, StormcellError
from stormcell.spec.home import Home
admission.DISK_OF_ONE = 0
state = Home.current().state
def ballast(leave):
    free = os.statvfs(state).f_bavail * os.statvfs(state).f_frsize
    with open(state / "ballast", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free - leave))
with Sandbox.create("base", ttl_seconds=900) as parent:
    parent.exec("echo kept > /root/file; sync")
    failed = 0
    for leave in (0, 100_000, 200_000, 300_000, 430_000, 500_000, 700_000):
        ballast(leave)
        try:
            parent.fork(2)
            raise SystemExit(f"forked with {leave} bytes left")
        except StormcellError as error:
            failed += 1
            print(leave, type(error).__name__, error.what, file=sys.stderr)
        os.unlink(state / "ballast")
        assert parent.exec("cat /root/file").text == "kept\\n", leave
        assert len(list((state / "sandboxes").iterdir())) == 1, leave
    ballast(5_000_000)  # room for the layer, not for the pages
    try:
        parent.snapshot("full")
        raise SystemExit("saved without room")
    except NoSpace as error:
        failed += 1
    os.unlink(state / "ballast")
    assert list((state / "snapshots").iterdir()) == []
    assert parent.exec("cat /root/file").text == "kept\\n"
    left = {path.name for path in layers.folder_of(state).iterdir()}
    assert left == set(parent._twin.record.layers), (left, parent._twin.record.layers)
    children = parent.fork(2)
    assert [child.exec("cat /root/file").text for child in children] == ["kept\\n"] * 2
    for child in children:
        child.kill()
print("unharmed", failed)
"""


def test_a_full_disk_is_a_clean_failure_and_the_parent_is_unharmed(tmp_path, home, template):
    state = tmp_path / "home"
    (state / "state").mkdir(parents=True)
    (state / "cache").symlink_to(home.cache)
    script = f'mount -t tmpfs -o size=16m,mode=700 none "{state}/state" && exec "$@"'
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    environment = {**os.environ, "STORMCELL_HOME": str(state)}
    done = subprocess.run(
        [*namespace, sys.executable, "-c", FULL], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.stdout == "unharmed 8\n", done.stderr


KILLED = """
import os, signal, sys
from stormcell.machine import capture, machine, pages
from stormcell.sandbox import forking, layers, making
from stormcell.sandbox.asandbox import AsyncSandbox
import asyncio, functools
place, when = sys.argv[2].split()
owner, name = {"new_layer": (layers, "new_layer"), "freeze_disk": (forking, "freeze_disk"),
    "copy_overlay": (forking, "copy_overlay"), "ahead": (machine.Machine, "ahead"), "pause": (machine.Machine, "pause"),
    "copy": (pages.Room, "copy"), "snapshot": (capture, "_is_used"), "cont": (machine.Machine, "cont"),
    "load": (machine.Machine, "load"), "record": (forking, "step_clock")}[place]
real = getattr(owner, name)
@functools.wraps(real)
def sync(*arguments, **named):
    if when == "before": os.kill(os.getpid(), signal.SIGKILL)
    result = real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
async def asynchronous(*arguments, **named):
    if when == "before": os.kill(os.getpid(), signal.SIGKILL)
    await real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
async def main():
    parent = await AsyncSandbox.attach(sys.argv[1])
    setattr(owner, name, asynchronous if asyncio.iscoroutinefunction(real) else sync)
    await parent.fork(2)
asyncio.run(main())
"""
PLACES = [
    "new_layer after", "freeze_disk after", "copy_overlay after", "ahead after", "pause before", "pause after",
    "copy after", "snapshot before", "cont before", "cont after", "record before", "load before", "load after",
]  # fmt: skip


def test_killed_at_any_step_the_parent_goes_on_and_gc_takes_the_rest(home, template):
    with Sandbox.create(template, ttl_seconds=900) as parent:
        parent.exec("echo 0 > /root/file; sync; echo ram > /run/file")
        for number, place in enumerate(PLACES, 1):
            done = subprocess.run(
                [sys.executable, "-c", KILLED, parent.id, place], capture_output=True, text=True, timeout=250
            )
            assert done.returncode == -signal.SIGKILL, (place, done.stderr)
            again = Sandbox.attach(parent.id)
            assert again.exec("cat /run/file", timeout=60).text == "ram\n", place
            again.exec(f"echo {number} > /root/file; sync")
            again.close()
            items = list(gc.collect(home))
            assert all(item.gone for item in items), [item.as_dict() for item in items]
            assert [path.name for path in home.sandboxes.iterdir()] == [parent.id], place
        child = parent.fork()
        with child:
            assert child.exec("cat /root/file /run/file").text == f"{len(PLACES)}\nram\n"
        boot_again(parent)
        assert parent.exec("cat /root/file").text == f"{len(PLACES)}\n"
    assert list(layers.folder_of(home.state).iterdir()) == []


def test_cut_off_while_its_disk_is_being_made_it_can_be_forked_again(home, template, monkeypatch):
    real = Monitor.execute

    async def cut_off(self, command, *arguments, **named):
        answer = await real(self, command, *arguments, **named)
        if command == "blockdev-add":  # QEMU has the node; who asked for it is gone, as after Ctrl-C
            raise MachineError("cut off")
        return answer

    with Sandbox.create(template, ttl_seconds=300) as parent:
        with monkeypatch.context() as patched:
            patched.setattr(Monitor, "execute", cut_off)
            with pytest.raises(MachineError, match="cut off"):
                parent.snapshot("never")
        with parent.fork() as child:
            assert child.exec("echo on").text == "on\n"
