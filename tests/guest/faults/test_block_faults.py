"""Faults of a disk under a data volume: what the target sees, what the kernel counted, what the disk holds later."""

import json
import re

import pytest

from tests.guest.faults.recording import VOLUME

FILE = "/srv/data/file"
READ = f"dd if={FILE} of=/dev/null bs=16k 2>&1"
DIRECT = f"dd if={FILE} of=/dev/null bs=4k iflag=direct 2>&1"
SUM = f"md5sum < {FILE}"
DROP = "sync; echo 3 > /proc/sys/vm/drop_caches"
BYSTANDER = "dd if=/dev/vda of=/dev/null bs=64k count=4 iflag=direct 2>&1 && echo untouched"


@pytest.fixture(scope="module", autouse=True)
def _volume(bench) -> None:
    bench.run(VOLUME)


def seconds(said: str) -> float:
    return float(re.findall(r", ([\d.e-]+) s,", said)[-1])


def several(said: str) -> list[float]:
    """Of several programs in one output."""
    return [float(found) for found in re.findall(r", ([\d.e-]+) s,", said)]


def thrice(command: str) -> str:
    """Somebody who is left alone is so in the best of three; the host may take any of them away."""
    return f"for n in 1 2 3; do {command}; done"


def shown(bench):
    return json.loads(bench.run("stormcell-guest volume show"))["data"]


def healthy(bench) -> None:
    """The table is one line, what is written is there, and the file system holds together."""
    said = bench.run(
        "set -e; echo new > /srv/data/new; sync -f /srv/data; rm /srv/data/new; cat /sys/block/dm-*/dm/name; "
        "cat /sys/block/loop*/loop/backing_file; fsfreeze -f /srv/data; "
        "e2fsck -fn /dev/dm-0 >/run/fsck 2>&1 || cat /run/fsck; fsfreeze -u /srv/data; ls /run/stormcell/marks; "
        "cat /sys/kernel/tracing/events/block/*/trigger | grep -v ^# || true"
    )
    assert said == "stormcell-data\n/var/lib/stormcell/volumes/data.img\n"


def test_a_slow_disk_keeps_a_reader_and_a_writer_waiting_and_nobody_else(bench):
    write = "dd if=/dev/zero of=/srv/data/other bs=4k count=1 oflag=direct 2>&1"
    bench.run(write)
    trial = bench.attempt(
        {"kind": "block.delay", "path": "/srv/data", "read": "200ms", "write": "400ms"},
        under=[
            thrice(DIRECT.replace("bs=4k", "bs=4k count=1 skip=$n")),
            f"{write}; {write}",
            thrice(BYSTANDER),
        ],
    )
    trial.proven()
    reads, writes, others = map(several, trial.said)
    assert (len(reads), len(writes), len(others)) == (3, 2, 3)
    assert min(reads) > 0.19
    assert min(reads) < 0.35
    assert min(writes) > 0.39
    assert min(writes) < 0.7
    assert trial.said[2].count("untouched") == 3
    assert min(others) < 0.15
    assert trial.acted >= 4
    healthy(bench)


def test_only_the_files_own_blocks_are_slow(bench):
    bench.run("head -c 40000 /dev/urandom > /srv/data/neighbour; sync -f /srv/data")
    trial = bench.attempt(
        {"kind": "block.delay", "path": FILE, "read": "300ms"},
        under=[
            DIRECT.replace("bs=4k", "bs=4k count=1"),
            thrice("dd if=/srv/data/neighbour of=/dev/null iflag=direct bs=4k 2>&1"),
        ],
    )
    trial.proven()
    assert trial.acted == 1
    assert seconds(trial.said[0]) > 0.29
    assert min(several(trial.said[1])) < 0.25


def test_a_delay_can_be_changed_while_it_acts(bench):
    from stormcell import faults

    spec = {"kind": "block.delay", "path": FILE, "read": "50ms"}
    (command,) = faults.parse(spec).change(faults.parse({**spec, "read": "500ms"})) or ()
    one = DIRECT.replace("bs=4k", "bs=4k count=1")
    trial = bench.attempt(spec, under=[thrice(one), " ".join(f"'{word}'" for word in command.argv), one])
    assert trial.receipt.in_force is False, "the receipt is of the first delay"
    assert min(several(trial.said[0])) < 0.4
    assert seconds(trial.said[2]) > 0.49
    assert trial.acted == 4
    healthy(bench)


@pytest.mark.parametrize("operations", ["read", "write", "both"])
def test_bad_sectors_fail_the_asked_operations_and_the_reader_of_another_file_sees_none(bench, operations):
    bench.run("echo fine > /srv/data/fine; sync -f /srv/data")
    before = bench.run(SUM)
    write = f"dd if={FILE} of={FILE} bs=4k count=2 conv=notrunc,fsync 2>&1"
    trial = bench.attempt(
        {"kind": "block.error", "path": FILE, "operations": operations},
        under=[READ, write, "cat /srv/data/fine", BYSTANDER],
    )
    trial.proven()
    assert ("error reading" in trial.said[0]) == (operations != "write")
    assert ("fsync failed" in trial.said[1]) == (operations == "write")  # with `both` it fails to read already
    assert trial.said[2] == "fine\n"
    assert "untouched" in trial.said[3]
    assert any("failed with EIO" in note and note.startswith("dd[") for note in trial.receipt.notes)
    assert bench.run(SUM) == before
    healthy(bench)


def test_a_share_of_a_device_is_what_was_asked_for(bench):
    bench.run("head -c 8M /dev/zero > /srv/data/large; sync -f /srv/data")
    count = "import os; f=os.open('/srv/data/large', os.O_RDONLY | os.O_DIRECT); import mmap; b=mmap.mmap(-1,4096); bad=0\nfor n in range(2048):\n try: os.preadv(f,[b],n*4096)\n except OSError: bad+=1\nprint(bad)"  # noqa: E501
    bench.put("/root/count.py", count)
    trial = bench.attempt(
        {"kind": "block.error", "path": "/srv/data/large", "share": "25%"}, under=["python3 /root/count.py"]
    )
    trial.proven()
    assert int(trial.said[0]) == 512 == trial.acted
    healthy(bench)


def test_an_open_file_survives_and_what_was_lost_is_seen_after_the_undo(bench):
    """Acknowledged, flushed, gone; the descriptor that was open all the time reads the old bytes from the disk."""
    bench.run("printf old- > /srv/data/lie; sync -f /srv/data")
    keeper = "exec 3<> /srv/data/lie; touch /run/open; while ! [ -e /run/written ]; do sleep 0.1; done; printf new- >&3; sync -d /srv/data/lie && echo synced > /run/synced; while ! [ -e /run/undone ]; do sleep 0.1; done; head -c 4 < /proc/self/fd/3 > /run/read; sleep 1"  # noqa: E501
    bench.run("rm -f /run/open /run/written /run/undone /run/read /run/synced")
    bench.put("/root/keeper.sh", keeper)
    bench.run("setsid sh /root/keeper.sh > /dev/null 2>&1 & until [ -e /run/open ]; do sleep 0.05; done")
    trial = bench.attempt(
        {"kind": "block.drop-writes", "path": "/srv/data/lie"},
        under=["touch /run/written; while ! [ -e /run/synced ]; do sleep 0.1; done; cat /srv/data/lie /run/synced"],
    )
    trial.proven()
    assert trial.said[0] == "new-synced\n"
    assert trial.acted == 8
    assert (
        bench.run("touch /run/undone; while ! [ -s /run/read ]; do sleep 0.1; done; cat /run/read /srv/data/lie")
        == "old-old-"
    )
    healthy(bench)


def test_a_flaky_disk_says_in_which_interval_it_is(bench):
    spec = {"kind": "block.flaky", "path": FILE, "up": "1s", "down": "1s"}
    broken = f"{DIRECT.replace('bs=4k', 'bs=4k count=1')} | grep -q 'error reading'"
    look = f"b=$(cut -d' ' -f1 /proc/uptime); {broken}; echo $? $b $(cut -d' ' -f1 /proc/uptime)"
    seen = f"s=$r; r=$({look}); [ ${{r%% *}} = ${{s%% *}} ] || turns=$((turns + 1)); echo $r"
    trial = bench.attempt(spec, under=[f"turns=0; r=none; while [ $turns -lt 3 ]; do {seen}; done"])
    trial.proven()
    looks = [line.split() for line in trial.said[0].splitlines()]
    first, second = (n for n in range(1, len(looks)) if looks[n][0] != looks[n - 1][0])
    assert {looks[first][0], looks[second][0]} == {"0", "1"}, "broken, and not broken"
    assert float(looks[second][2]) - float(looks[first - 1][1]) > 0.9, "so long it stays as it is"
    assert any(note.startswith("after the act the disk was ") for note in trial.receipt.notes)
    idle = bench.attempt({**spec, "up": "60s", "first": "up"}, under=[DIRECT])
    assert (idle.receipt.in_force, idle.acted) == (True, 0)
    assert any("the disk was up" in note for note in idle.receipt.notes)
    healthy(bench)


def test_a_corrupted_byte_is_read_and_the_disk_is_right(bench):
    before = bench.run(SUM)
    trial = bench.attempt(
        {"kind": "block.corrupt", "path": FILE, "byte": 9},
        under=[f"cp {FILE} /root/corrupt"],
    )
    trial.proven()
    assert bench.run(SUM) == before
    differ = [line.split() for line in bench.run(f"cmp -l {FILE} /root/corrupt || true").splitlines()]
    assert [int(place) for place, _, _ in differ] == list(range(9, 400000, 4096))
    assert all(int(right, 8) ^ int(wrong, 8) == 255 for _, right, wrong in differ)
    healthy(bench)


def test_a_byte_that_was_stored_wrong_stays_wrong(bench):
    bench.run("yes | head -c 8192 > /srv/data/yes; sync -f /srv/data")
    trial = bench.attempt(
        {"kind": "block.corrupt", "path": "/srv/data/yes", "operations": "write", "byte": 3, "value": 88},
        under=["yes | dd of=/srv/data/yes bs=4k count=2 conv=notrunc,fsync iflag=fullblock 2>&1"],
    )
    trial.proven()
    assert bench.run("head -c 6 /srv/data/yes") == "y\nX\ny\n"
    healthy(bench)


def test_a_journal_that_met_an_error_is_mended_by_the_undo(bench):
    trial = bench.attempt(
        {"kind": "block.error", "path": "/srv/data"},
        under=["echo lost > /srv/data/lost; sync -f /srv/data; touch /srv/data/x"],
    )
    trial.proven()
    assert "Read-only file system" in trial.said[0] or "Input/output error" in trial.said[0]
    assert any("and has given up" in note for note in trial.receipt.notes)
    healthy(bench)


@pytest.mark.parametrize(
    ("spec", "under"),
    [
        ({"kind": "block.delay", "path": FILE, "read": "50ms"}, "true"),
        ({"kind": "block.error", "path": FILE, "cache": "keep"}, READ),
        ({"kind": "block.drop-writes", "path": FILE}, READ),
        ({"kind": "block.corrupt", "path": FILE}, "cat /srv/data/fine"),
    ],
)
def test_in_force_but_nothing_met_it(bench, spec, under):
    bench.run(f"cat {FILE} > /dev/null")
    trial = bench.attempt(spec, under=[under])
    assert (trial.receipt.apply_ok, trial.receipt.in_force, trial.receipt.clean) == (True, True, True)
    assert trial.acted == 0


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/var/tmp", "which is no data volume; give the template one with `volumes`"),
        ("/srv/data/none", "No such file or directory"),
        ("/srv/data/empty", "has no blocks on the disk"),
    ],
)
def test_what_is_on_no_volume_is_refused(bench, path, why):
    bench.run("touch /srv/data/empty")
    trial = bench.attempt({"kind": "block.error", "path": path})
    assert trial.receipt.apply_ok is False
    assert why in trial.stop
    healthy(bench)


def test_two_faults_do_not_swap_the_same_table(bench):
    bench.run("stormcell-guest block act first /srv/data 100 keep 0 0 delay '@disk 20 @disk 20'")
    trial = bench.attempt({"kind": "block.error", "path": FILE})
    assert "is already changed by the fault 'first'" in trial.stop
    assert shown(bench)["table"][0][2] == "delay"
    bench.run("stormcell-guest block heal first; stormcell-guest block heal first")
    healthy(bench)


def test_an_act_that_was_killed_half_way_is_undone(bench):
    act = "stormcell-guest block act half /srv/data 100 keep 0 600 flakey '@disk 1 1 0'"
    bench.run(
        f"{act} & while ! grep -q bad /run/stormcell/marks/half; do sleep 0.02; done; sleep 0.5; "
        "kill -9 $!; wait $! 2>/dev/null; true"
    )
    bench.run("stormcell-guest block heal half")
    assert "stormcell" not in bench.run("cat /sys/kernel/tracing/events/block/*/trigger")
    assert bench.run("ls /run/stormcell/marks") == ""
    healthy(bench)
