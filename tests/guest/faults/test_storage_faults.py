"""Limits, quotas and read-only file systems, and files that lose mode, name, content or lock: seen from beside."""

import re

import pytest

from tests.guest.faults.recording import GROUP, SERVICE, VOLUME

NOBODY = "su nobody -s /bin/sh -c"
CONF = "/var/tmp/app.conf"
LOCK = 'import fcntl; fcntl.{}(open("/var/tmp/app.conf", "r+"), fcntl.LOCK_EX{})'


@pytest.fixture(scope="module", autouse=True)
def _volume(bench) -> None:
    bench.run(f"{VOLUME}; mkdir -p {GROUP}; chmod 777 /srv/data")


@pytest.fixture(autouse=True)
def _file(bench) -> None:
    bench.run(f"rm -rf {CONF}; umask 022; seq 1000 > {CONF}")


def seconds(said: str) -> list[float]:
    """Of each program; the host may take the CPU away from any of them, so that the best one counts."""
    return [float(found) for found in re.findall(r", ([\d.e-]+) s,", said)]


def same_file(bench) -> str:
    return str(bench.run(f"stat -c '%i %a %U %s' {CONF}; md5sum < {CONF}"))


def nothing_counts(bench) -> None:
    said = bench.run(
        "cat /sys/kernel/tracing/kprobe_events /sys/kernel/tracing/synthetic_events; ls /run/stormcell/marks; "
        "cat /sys/kernel/tracing/events/{raw_syscalls,block,filelock}/*/trigger | grep -v '^#' || true"
    )
    assert said == ""


def test_direct_writes_of_the_group_are_as_slow_as_was_asked_for_and_others_are_not(bench):
    write = "for n in 1 2; do dd if=/dev/zero of=/srv/data/{} bs=64k count=16 oflag=direct 2>&1; done"
    trial = bench.attempt(
        {"kind": "io.limit", "service": "victim", "path": "/srv/data", "write": "1MiB"},
        under=[f"{SERVICE} {write.format('mine')}", write.format("others")],
    )
    trial.proven()
    mine, others = map(seconds, trial.said)
    assert 0.7 < min(mine) < 1.5
    assert min(others) < 0.5
    assert any(note.startswith("applies to: direct I/O") for note in trial.receipt.notes)
    assert bench.run(f"cat {GROUP}/io.max") == ""
    nothing_counts(bench)


def test_reads_are_limited_in_number(bench):
    trial = bench.attempt(
        {"kind": "io.limit", "service": "victim", "path": "/srv/data/file", "read_operations": 20},
        under=[f"{SERVICE} for n in 1 2; do dd if=/srv/data/file of=/dev/null bs=4k count=20 iflag=direct 2>&1; done"],
    )
    trial.proven()
    assert 0.7 < min(seconds(trial.said[0])) < 1.5


def test_a_user_over_quota_gets_edquot_and_another_user_does_not(bench):
    write = "head -c 300000 /dev/zero > /srv/data/quota-{0}; rm /srv/data/quota-{0}"
    trial = bench.attempt(
        {"kind": "disk.quota", "path": "/srv/data", "leave": "64KiB"},
        under=[
            f"{NOBODY} '{write.format('mine')}'",
            f"su daemon -s /bin/sh -c '{write.format('others')}'",
            "df /srv/data",
        ],
    )
    trial.proven()
    assert "Disk quota exceeded" in trial.said[0]
    assert trial.said[1] == ""
    assert trial.acted == 1
    assert bench.run(f"{NOBODY} '{write.format('mine')}'") == ""
    nothing_counts(bench)


def test_a_folder_has_a_quota_for_everybody_and_its_neighbour_has_none(bench):
    bench.run("mkdir -m 777 -p /srv/data/a /srv/data/b; head -c 5000 /dev/zero > /srv/data/a/old")
    touch = "touch /srv/data/{0}/1 /srv/data/{0}/2 /srv/data/{0}/3"
    trial = bench.attempt(
        {"kind": "disk.quota", "path": "/srv/data/a", "of": "folder", "leave": "8KiB", "leave_files": 2},
        under=[f"{NOBODY} '{touch.format('a')}'", f"{NOBODY} '{touch.format('b')}'",
               f"{NOBODY} 'head -c 50000 /dev/zero > /srv/data/a/1'"],
    )  # fmt: skip
    trial.proven()
    assert "Disk quota exceeded" in trial.said[0]
    assert trial.said[1] == ""
    assert "Disk quota exceeded" in trial.said[2]
    assert bench.run(f"{NOBODY} '{touch.format('a')}'; rm -rf /srv/data/a /srv/data/b") == ""


@pytest.mark.parametrize(
    "way", ["ln -sfn /srv/data /var/tmp/way", "mkdir -p /var/tmp/way; mount --bind /srv/data /var/tmp/way"]
)
def test_the_disk_that_is_filled_is_the_one_that_holds_the_path(bench, way):
    bench.run(way)
    write = f"{NOBODY} 'head -c 300000 /dev/zero > {{0}}/x; rm -f {{0}}/x'"
    trial = bench.attempt(
        {"kind": "disk.fill", "path": "/var/tmp/way"}, under=[write.format("/srv/data"), write.format("/tmp")]
    )
    trial.proven()
    assert "No space left on device" in trial.said[0]
    assert trial.said[1] == ""
    assert any(note.startswith("/var/tmp/way is on /dev/dm-0 (ext4)") for note in trial.receipt.notes)
    bench.run("if [ -L /var/tmp/way ]; then rm /var/tmp/way; else umount /var/tmp/way && rmdir /var/tmp/way; fi")
    assert "stormcell" not in bench.run("ls -A /srv/data")


def test_a_file_system_becomes_read_only_and_writable_again(bench):
    trial = bench.attempt(
        {"kind": "block.readonly", "path": "/srv/data/file"},
        under=["touch /srv/data/x", "cat /srv/data/file | wc -c", "touch /var/tmp/y && rm /var/tmp/y"],
    )
    trial.proven()
    assert "Read-only file system" in trial.said[0]
    assert trial.said[1:] == ["400000\n", ""]
    assert trial.acted == 1
    bench.run("touch /srv/data/x && rm /srv/data/x")


def test_a_file_that_is_open_for_writing_is_named(bench):
    trial = bench.attempt(
        {"kind": "block.readonly", "path": "/srv/data"},
        setup=["rm -f /srv/data/log"],
        loads=["exec 3>> /srv/data/log; echo x >&3; sleep 1000"],
        ready="[ -s /srv/data/log ]",
    )
    assert trial.receipt.apply_ok is False
    assert re.search(r"open for writing there, by sh\[\d+\] \(/srv/data/log\)", trial.stop)
    nothing_counts(bench)


def test_a_mode_refuses_the_user_and_comes_back(bench):
    before = same_file(bench)
    trial = bench.attempt(
        {"kind": "file.mode", "path": CONF},
        under=[f"{NOBODY} 'cat {CONF}'", "cat /etc/hosts >/dev/null", f"cat {CONF} | wc -l"],
    )
    trial.proven()
    assert "Permission denied" in trial.said[0]
    assert trial.said[2] == "1000\n"
    assert trial.acted == 1
    assert same_file(bench) == before
    nothing_counts(bench)


@pytest.mark.parametrize("answer", ["", f"echo anew > {CONF}"])
def test_a_removed_file_comes_back_as_it_was(bench, answer):
    before = same_file(bench)
    trial = bench.attempt(
        {"kind": "file.remove", "path": CONF},
        under=[f"cat {CONF}", f"stat {CONF}", "ls /var/tmp/ | grep app", answer or "true"],
    )
    trial.proven()
    assert "No such file or directory" in trial.said[0]
    assert "No such file or directory" in trial.said[1]
    assert trial.said[2] == ""
    assert trial.acted >= 2
    assert same_file(bench) == before
    assert "stormcell" not in bench.run("ls -A / /var/tmp")
    nothing_counts(bench)


def test_what_the_target_made_anew_can_be_kept(bench):
    trial = bench.attempt(
        {"kind": "file.remove", "path": CONF, "made_anew": "keep"}, under=[f"cat {CONF}; echo anew > {CONF}"]
    )
    trial.proven()
    assert bench.run(f"cat {CONF}; ls -A / | grep stormcell || true") == "anew\n"


def test_a_folder_can_be_removed_and_its_content_is_missed(bench):
    bench.run("mkdir -p /var/tmp/conf.d/a; echo x > /var/tmp/conf.d/a/b")
    trial = bench.attempt({"kind": "file.remove", "path": "/var/tmp/conf.d"}, under=["cat /var/tmp/conf.d/a/b"])
    trial.proven()
    assert bench.run("cat /var/tmp/conf.d/a/b") == "x\n"


def test_a_truncated_file_is_short_and_comes_back_whole(bench):
    before = same_file(bench)
    trial = bench.attempt(
        {"kind": "file.truncate", "path": CONF, "to": "10B"}, under=[f"cat {CONF}", f"echo more >> {CONF}"]
    )
    trial.proven()
    assert trial.said[0] == "1\n2\n3\n4\n5\n"
    assert same_file(bench) == before


@pytest.mark.parametrize(("how", "call"), [("flock", "flock"), ("fcntl", "lockf")])
def test_a_stale_lock_refuses_and_makes_wait(bench, how, call):
    try_once = f"python3 -c '{LOCK.format(call, ' | fcntl.LOCK_NB')}'"
    other = f"python3 -c '{LOCK.format({'flock': 'lockf', 'lockf': 'flock'}[call], ' | fcntl.LOCK_NB')}' && echo free"
    wait = f"python3 -c 'import signal; signal.alarm(1); {LOCK.format(call, '')}'; echo $?"
    trial = bench.attempt({"kind": "file.lock", "path": CONF, "how": how}, under=[try_once, wait, other])
    trial.proven()
    assert "BlockingIOError" in trial.said[0]
    assert trial.said[1].startswith("142\n"), "the alarm found it waiting"
    assert trial.said[2] == "free\n"
    assert trial.acted == 2
    bench.run(try_once)
    nothing_counts(bench)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"kind": "io.limit", "service": "nosuch", "path": "/srv/data", "write": "1MiB"}, "there is no cgroup"),
        ({"kind": "io.limit", "service": "victim", "path": "/run", "write": "1MiB"}, "which is on no block device"),
        ({"kind": "disk.quota", "path": "/var/tmp", "leave": "0B"}, "keeps no quotas"),
        ({"kind": "disk.quota", "path": "/run", "leave": "0B"}, "keeps no quotas"),
        ({"kind": "disk.quota", "path": "/srv/data", "user": "nosuch", "leave": "0B"}, "there is no user 'nosuch'"),
        ({"kind": "block.readonly", "path": "/no/such"}, "No such file or directory"),
        ({"kind": "file.mode", "path": "/no/such"}, "No such file or directory"),
        ({"kind": "file.remove", "path": "/srv/data"}, "is a mount"),
        ({"kind": "file.truncate", "path": CONF, "to": "1MiB"}, "would do nothing"),
        ({"kind": "file.truncate", "path": "/var/tmp"}, "is no file"),
        ({"kind": "file.lock", "path": "/no/such"}, "No such file or directory"),
    ],
)
def test_what_cannot_be_done_fails_with_its_reason(bench, spec, why):
    trial = bench.attempt(spec)
    assert trial.receipt.apply_ok is not True
    assert why in trial.stop
    nothing_counts(bench)


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "io.limit", "service": "victim", "path": "/srv/data", "write": "1MiB"},
        {"kind": "disk.quota", "path": "/srv/data", "leave": "0B"},
        {"kind": "block.readonly", "path": "/srv/data"},
        {"kind": "file.mode", "path": CONF},
        {"kind": "file.remove", "path": CONF},
        {"kind": "file.truncate", "path": CONF},
        {"kind": "file.lock", "path": CONF},
    ],
    ids=lambda spec: spec["kind"],
)
def test_in_force_but_nobody_met_it(bench, spec):
    trial = bench.attempt(spec, under=["cat /etc/hostname; ls /var"])
    judged = trial.receipt
    assert (judged.apply_ok, judged.in_force, judged.clean, trial.acted) == (True, True, True, 0)
