"""Faults of disks that were not what they were said to be: reports 20, 21, 22, 23 and 49.

20: https://github.com/chaosblade-io/chaosblade/issues/119, 21: https://github.com/chaos-mesh/chaos-mesh/issues/1250,
22: https://github.com/ligurio/unreliablefs/issues/96, 23: https://github.com/writeboost/dm-writeboost/issues/126,
49: https://github.com/chaos-mesh/chaos-mesh/issues/3424
"""

import re

import pytest

from tests.guest.faults.recording import GROUP, SERVICE, VOLUME

FILE = "/srv/data/file"
READ = f"dd if={FILE} of=/dev/null bs=16k 2>&1"
DIRECT = f"dd if={FILE} of=/dev/null bs=16k iflag=direct 2>&1"


@pytest.fixture(scope="module", autouse=True)
def _volume(bench) -> None:
    bench.run(f"{VOLUME}; mkdir -p {GROUP}")


def seconds(said: str) -> list[float]:
    """Of each program; the host may take the CPU away from any of them, so that the best one counts."""
    return [float(found) for found in re.findall(r", ([\d.e-]+) s,", said)]


def void(trial) -> None:
    """In force, and it touched nothing: the run does not count."""
    assert (trial.receipt.apply_ok, trial.receipt.in_force, trial.receipt.clean) == (True, True, True), trial.stop
    assert trial.acted == 0


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_20_a_limit_does_not_slow_writes_that_only_fill_the_cache(bench, way):
    write = "for n in 1 2; do dd if=/dev/zero of=/srv/data/burn bs=256k count=8"
    if way == "naive":
        dev = bench.run("cat /sys/block/dm-0/dev").strip()
        written = f"sed -n 's/^{dev} .*wbytes=\\([0-9]*\\).*/\\1/p' {GROUP}/io.stat"
        spec = {
            "kind": "custom.commands",
            "apply": f"echo '{dev} wbps=1048576' > {GROUP}/io.max",
            "undo": f"echo '{dev} wbps=max' > {GROUP}/io.max",
            "shows": f"grep -q '{dev} .*wbps=1048576' {GROUP}/io.max",
            "counter": f"n=$({written}); echo ${{n:-0}}",
        }
        trial = bench.attempt(spec, under=[f"{SERVICE} {write} conv=notrunc 2>&1; done"])
        assert min(seconds(trial.said[0])) < 0.5
        void(trial)
        bench.run("sync -f /srv/data")
        return
    spec = {"kind": "io.limit", "service": "victim", "path": "/srv/data", "write": "1MiB"}
    trial = bench.attempt(spec, under=[f"{SERVICE} {write} oflag=direct 2>&1; done"])
    trial.proven()
    assert min(seconds(trial.said[0])) == pytest.approx(2, rel=0.25)
    assert any(note.startswith("applies to: direct I/O") for note in trial.receipt.notes)
    (waited,) = [note for note in trial.receipt.notes if "io.pressure" in note]
    assert float(re.findall(r"for ([\d.]+) s", waited)[0]) > 2


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_21_a_cached_page_hides_an_error_of_the_disk(bench, way):
    bench.run(f"cat {FILE} > /dev/null")
    if way == "naive":
        trial = bench.attempt({"kind": "block.error", "path": FILE, "cache": "keep"}, under=[READ])
        void(trial)
        assert "error" not in trial.said[0]
        return
    trial = bench.attempt({"kind": "block.error", "path": FILE}, under=[READ, DIRECT])
    trial.proven()
    assert all("Input/output error" in said for said in trial.said)
    assert any(note.startswith("dd[") and "failed with EIO" in note for note in trial.receipt.notes)
    assert "error" not in bench.run(READ)


WRITER = """
import errno, os
fd = os.open("/srv/data/lost", os.O_RDWR)
said = [os.pwrite(fd, b"N", 0)]
for _ in range(2):
    try:
        os.fsync(fd)
        said.append("ok")
    except OSError as error:
        said.append(errno.errorcode[error.errno])
print(*said, os.pread(fd, 1, 0).decode())
"""


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_22_what_was_read_back_from_the_cache_is_not_on_the_disk(bench, way):
    bench.put("/root/writer.py", WRITER)
    bench.run("head -c 4096 /dev/zero | tr '\\0' o > /srv/data/lost; sync -f /srv/data || sync -f /srv/data")
    spec = {"kind": "block.error", "path": "/srv/data/lost", "operations": "write"}
    keep = {"cache": "keep"} if way == "naive" else {}
    trial = bench.attempt({**spec, **keep}, under=["python3 /root/writer.py"])
    trial.proven()
    written, first, _, read = trial.said[0].split()
    assert (written, first, read) == ("1", "EIO", "N")
    after = bench.run("head -c 1 /srv/data/lost")
    if way == "naive":  # a probe after the undo would pass, wrongly; the receipt says so
        assert after == "N"
        assert any("must drop the caches" in said for said in trial.fault.cannot_know())
        bench.run("echo 3 > /proc/sys/vm/drop_caches")
    assert bench.run("head -c 1 /srv/data/lost") == "o"
    if way == "ours":
        assert after == "o"


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_23_a_flaky_disk_begins_with_the_interval_in_which_it_works(bench, way):
    spec = {"kind": "block.flaky", "path": FILE, "up": "60s", "down": "1s", "first": "up"}
    if way == "naive":
        trial = bench.attempt(spec, under=[DIRECT])
        void(trial)
        assert "error" not in trial.said[0]
        assert any(note.startswith("before the undo the disk was up") for note in trial.receipt.notes)
        return
    trial = bench.attempt({**spec, "up": "1s", "down": "60s", "first": "down"}, under=[DIRECT])
    trial.proven()
    assert "Input/output error" in trial.said[0]
    assert any(note.startswith("before the undo the disk was down") for note in trial.receipt.notes)


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_49_the_recovery_leaves_no_dead_mount_and_open_files_live(bench, way):
    whole = (
        "stat -f /srv/data > /dev/null && echo new > /srv/data/check && sync /srv/data/check && cat /srv/data/check && "
        "rm /srv/data/check && fsfreeze -f /srv/data && { e2fsck -fn /dev/dm-0 > /dev/null 2>&1; r=$?; "
        "fsfreeze -u /srv/data; exit $r; }"
    )
    if way == "naive":  # a layer over the path, whose removal fails because somebody is in it
        spec = {
            "kind": "custom.commands",
            "apply": "mount -t tmpfs layer /srv/data && (cd /srv/data; sleep 600 > /dev/null 2>&1 & echo $! > /run/in)",
            "undo": "umount /srv/data || true",
            "shows": "grep -q '^layer /srv/data' /proc/mounts",
            "counter": f"test -e {FILE} && echo 0 || echo 1",
        }
        trial = bench.attempt(spec, under=["true"])
        assert trial.receipt.in_force
        assert trial.receipt.clean is False, "something of it is left"
        bench.run("kill $(cat /run/in); until umount /srv/data; do sleep 0.1; done")
    else:
        keeper = (
            f"exec 3< {FILE}; touch /run/open; while ! [ -e /run/healed ]; do sleep 0.1; done; md5sum <&3 > /run/kept"
        )
        bench.put("/root/keeper.sh", keeper)
        bench.run("rm -f /run/healed /run/kept /run/open; setsid sh /root/keeper.sh > /dev/null 2>&1 &")
        bench.run("until [ -e /run/open ]; do sleep 0.1; done")
        trial = bench.attempt({"kind": "block.error", "path": FILE, "operations": "read"}, under=[DIRECT])
        trial.proven()
        kept = "touch /run/healed; while ! [ -s /run/kept ]; do sleep 0.1; done; cat /run/kept; md5sum < "
        first, second = bench.run(kept + FILE).splitlines()
        assert first == second
    assert bench.run(whole) == "new\n"
