"""Errnos for system calls and files: the victim sees them, a bystander does not, and the kernel's counts say so."""

import json
from pathlib import Path

import pytest

from tests.guest.faults.fault_trial import until

GROUP = "/sys/fs/cgroup/services/victim"
JOIN = f"mkdir -p {GROUP}; echo $$ > {GROUP}/cgroup.procs;"
TOOL = "python3 /srv/tool.py"
VICTIM = f"{JOIN} exec {TOOL}"
NOBODY = f"su nobody -s /bin/sh -c '{TOOL} {{}}'"


@pytest.fixture(scope="module", autouse=True)
def _prepared(bench):
    bench.put("/srv/tool.py", (Path(__file__).parent / "syscall_tool.py").read_text())
    bench.run(f"mkdir -p {GROUP} /srv/dir/deep; chmod 755 /srv; for n in x y z dir/deep/z; do echo hi > /srv/$n; done")
    bench.run("ln -s /srv/x /srv/soft; ln /srv/x /srv/hard; ln -s /srv/dir /srv/way")


def errno(call, **rest):
    return {"kind": "syscall.errno", "service": "victim", "call": call, "errno": "ENOMEM", **rest}


def hits(trial):
    told = json.loads(trial.receipt.readings["after"].outputs["bpf"].out)
    return {(hit["comm"], hit["call"], hit["errno"]): hit["count"] for hit in told["hits"]}


def lines(text):
    """`name ERRNO` lines, as a table."""
    return dict(line.rsplit(" ", 1) for line in text.splitlines())


def test_every_variant_of_a_call_is_met_and_nobody_else(bench):
    trial = bench.attempt(errno("open", path="/srv/x"), under=[f"{VICTIM} variants /srv/x", f"{TOOL} variants /srv/x"])
    trial.proven()
    variants = ["open", "openat", "openat2", "creat", "open32", "io_uring"]
    assert lines(trial.said[0]) == dict.fromkeys(variants, "ENOMEM")
    assert lines(trial.said[1]) == dict.fromkeys(variants, "OK")
    assert trial.acted == 6
    assert hits(trial) == {("python3", "open", "ENOMEM"): 6}
    assert bench.run(f"{JOIN} {TOOL} variants /srv/x; ls -A /sys/fs/bpf/stormcell").count("OK") == 6


def test_a_rate_is_kept_and_what_passes_is_counted(bench):
    trial = bench.attempt(errno("open", path="/srv/x", rate="30%"), under=[f"{VICTIM} repeat /srv/x 600 0"])
    trial.proven()
    words = trial.said[0].split()
    failed, passed = int(words[words.index("ENOMEM") + 1]), int(words[words.index("OK") + 1])
    assert failed + passed == 600
    assert 125 < failed < 235  # 180 +- 5 standard deviations
    assert hits(trial) == {("python3", "open", "ENOMEM"): failed, ("python3", "open", ""): passed}


def test_every_nth_and_not_more_than_so_many(bench):
    trial = bench.attempt(errno("open", path="/srv/x", every=3, limit=5), under=[f"{VICTIM} repeat /srv/x 30 0"])
    trial.proven()
    assert trial.acted == 5
    assert trial.said[0].split()[1:] == ["ENOMEM", "5", "OK", "25"]


@pytest.mark.parametrize("ramp", ["stormcell-guest bpf change fault errno=EACCES rate=1000000 every=2 limit=0"])
def test_a_fault_is_changed_in_place(bench, ramp):
    asked = f"{VICTIM} repeat /srv/x 10 0"
    trial = bench.attempt(errno("open", path="/srv/x"), under=[asked, ramp, asked])
    assert trial.said[0].split()[1:] == ["ENOMEM", "10"]
    assert trial.said[2].split()[1:] == ["EACCES", "5", "OK", "5"]
    assert trial.acted == 15
    assert trial.receipt.in_force is False, "it is no longer what was asked for"
    assert trial.receipt.clean


@pytest.mark.parametrize("names", ["/srv/x", "/srv/./dir/../x", "/srv/soft", "/srv/hard", "/proc/self/root/srv/x"])
def test_a_file_is_met_under_every_name(bench, names):
    trial = bench.attempt(errno("open", path="/srv/x"), under=[f"{JOIN} cat {names} /srv/z"])
    trial.proven()
    assert "Cannot allocate memory" in trial.said[0]
    assert "hi\n" in trial.said[0]
    assert trial.acted == 1


def test_a_folder_is_met_with_all_below_it_and_what_is_mounted_there(bench):
    bench.run("mkdir -p /srv/dir/mnt; mount -t tmpfs tmpfs /srv/dir/mnt; echo hi > /srv/dir/mnt/z")
    reads = "cd /srv/dir/deep; cat z /srv/way/deep/z ../mnt/z; cat /srv/y; mkdir ../made; mkdir /srv/made"
    trial = bench.attempt(errno(["open", "mkdir"], path="/srv/dir", errno="EROFS"), under=[f"{JOIN} {reads}"])
    bench.run("umount /srv/dir/mnt; rmdir /srv/made")
    trial.proven()
    assert trial.said[0].count("Read-only file system") == 4
    assert trial.said[0].startswith("hi\n")
    assert trial.acted == 4


def test_a_file_that_is_replaced_under_the_fault_is_met_by_its_name(bench):
    text = f"{JOIN} cat /srv/y; echo new > /srv/new; mv /srv/new /srv/y; cat /srv/y"
    trial = bench.attempt(errno("open", path="/srv/y", errno="EIO"), under=[text])
    trial.proven()
    assert trial.said[0].count("Input/output error") == 2
    assert trial.acted == 2


def test_a_file_that_is_not_there_yet(bench):
    bench.run("rm -f /srv/later")
    trial = bench.attempt(
        errno("create", path="/srv/later", errno="EDQUOT"),
        under=[f"{JOIN} echo x > /srv/later; ls /srv/later", "echo x > /srv/later; cat /srv/later"],
    )
    trial.proven()
    assert "Disk quota exceeded" in trial.said[0]
    assert "No such file" in trial.said[0]
    assert trial.said[1] == "x\n"


def test_processes_that_were_there_with_their_threads_and_children(bench):
    loads = [f"exec {TOOL} later /srv/go threads /srv/x 20", f"exec {TOOL} repeat /srv/y 100000 5"]
    bench.run("rm -f /srv/go* /srv/said; cp /usr/bin/python3 /srv/stormvictim")
    spec = {"kind": "syscall.errno", "name": "stormvictim", "call": "open", "errno": "EACCES", "path": "/srv/x"}
    named = "exec /srv/stormvictim /srv/tool.py later /srv/go.named threads /srv/x 20 > /srv/said"
    done = f"touch /srv/go /srv/go.named; {until('[ $(wc -l < /srv/said) = 5 ]')}"
    trial = bench.attempt(
        spec, loads=[named, *loads], ready="[ -e /srv/go.named.awaited ]", under=[done, f"{TOOL} repeat /srv/x 3 0"]
    )
    trial.proven()
    assert trial.said[1].split()[1:] == ["OK", "3"]
    told = json.loads(trial.receipt.readings["after"].outputs["bpf"].out)
    assert len({hit["pid"] for hit in told["hits"]}) == 2, "the process with its threads, and its child"
    assert {hit["comm"] for hit in told["hits"]} == {"stormvictim"}
    assert trial.acted == 100


def test_an_unprivileged_user_whenever_the_process_begins(bench):
    spec = {"kind": "syscall.errno", "user": "nobody", "call": "open", "errno": "EACCES", "path": "/srv/x"}
    trial = bench.attempt(spec, under=[NOBODY.format("repeat /srv/x 4 0"), f"{TOOL} repeat /srv/x 4 0"])
    trial.proven()
    assert trial.said[0].split()[1:] == ["EACCES", "4"]
    assert trial.said[1].split()[1:] == ["OK", "4"]
    assert trial.acted == 4


def test_calls_that_are_about_no_file(bench):
    calls = ["fork", "thread", "kill", "socket"]
    trial = bench.attempt(errno(calls, errno="EAGAIN"), under=[f"{VICTIM} others", f"{TOOL} others"])
    trial.proven()
    seen = lines(trial.said[0])
    assert {name: seen[name] for name in calls} == dict.fromkeys(calls, "EAGAIN")
    assert seen["mprotect"] == "OK"
    assert set(lines(trial.said[1]).values()) == {"OK"}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_calls_on_sockets_by_peer_and_port(bench, host):
    spec = errno(["connect", "send", "recv"], errno="EHOSTUNREACH", address=["127.0.0.1", "::1"], remote_port=7001)
    asked = [f"{VICTIM} sockets {host} 7001", f"{VICTIM} sockets {host} 7002", f"{TOOL} sockets {host} 7003"]
    trial = bench.attempt(spec, under=asked)
    trial.proven()
    assert lines(trial.said[0])["connect"] == "EHOSTUNREACH"
    for other in trial.said[1:]:
        assert "EHOSTUNREACH" not in other
    assert trial.acted == 1


def test_a_server_by_its_own_port(bench):
    spec = errno(["bind", "listen", "accept"], errno="EADDRINUSE", local_port=7001, every=2)
    trial = bench.attempt(spec, under=[f"{VICTIM} sockets 127.0.0.1 7001", f"{VICTIM} sockets 127.0.0.1 7002"])
    trial.proven()
    first = lines(trial.said[0])
    assert (first["bind"], first["listen"]) == ("OK", "EADDRINUSE")
    assert "EADDRINUSE" not in trial.said[1]


def test_flipped_bits_reach_the_reader_and_not_the_disk(bench):
    bench.run("head -c 100000 /dev/zero > /srv/zeros; head -c 4096 /dev/zero > /srv/dir/zeros")
    spec = {"kind": "file.corrupt", "service": "victim", "path": "/srv/zeros", "bytes": 3}
    sums = "md5sum < /srv/zeros; md5sum < /srv/dir/zeros"
    before = bench.run(sums)
    count = f"{TOOL} changed /srv/zeros 4096"
    trial = bench.attempt(
        spec, under=[f"{JOIN} {count}", f"{JOIN} {TOOL} changed /srv/dir/zeros 4096", f"{count}; {sums}"]
    )
    trial.proven()
    assert trial.said[0] == "reads 25 bytes 75 bits 75 vector 3\n"
    assert trial.said[1] == "reads 1 bytes 0 bits 0 vector 0\n"
    assert trial.said[2] == f"reads 25 bytes 0 bits 0 vector 0\n{before}"
    assert trial.acted == 26
    assert hits(trial) == {("python3", "read", "hit"): 26}


def test_wrong_data_at_a_rate_for_a_file_that_is_open_already(bench):
    loads = [f"{JOIN} exec {TOOL} later /srv/go2 changed /srv/zeros 100 > /srv/said"]
    bench.run("rm -f /srv/go2* /srv/said")
    spec = {"kind": "file.corrupt", "path": "/srv", "every": 10, "limit": 90}
    done = f"touch /srv/go2; {until('[ -s /srv/said ]')}"
    trial = bench.attempt(spec, loads=loads, ready="[ -e /srv/go2.awaited ]", under=[done])
    trial.proven()
    assert trial.acted == 90


FILE_CALLS = [
    "read", "write", "readdir", "create", "mkdir", "unlink", "rmdir", "rename", "link", "symlink", "truncate", "chmod",
    "chown", "readlink", "lock", "mmap", "ioctl", "exec",
]  # fmt: skip


def test_every_operation_on_files_below_a_folder_for_everybody(bench):
    bench.run(f"{TOOL} prepare /srv/data; {TOOL} prepare /srv/other")
    spec = {"kind": "file.errno", "path": "/srv/data", "operation": FILE_CALLS, "errno": "EROFS"}
    trial = bench.attempt(spec, under=[f"{TOOL} everything /srv/data", f"{TOOL} everything /srv/other"])
    trial.proven()
    seen = lines(trial.said[0])
    assert {name: seen[name] for name in FILE_CALLS} == dict.fromkeys(FILE_CALLS, "EROFS")
    assert (seen["open"], seen["stat"]) == ("OK", "OK")
    assert "EROFS" not in trial.said[1]
    assert trial.acted == len(FILE_CALLS)
    assert hits(trial) == {("python3", name, "EROFS"): 1 for name in FILE_CALLS}


def test_the_undo_needs_nothing_and_can_be_done_twice(bench):
    words = "by=service what=victim call=open errno=EIO rate=1000000 every=0 limit=0"
    ours = "/sys/fs/bpf/stormcell"
    bench.run(f"stormcell-guest bpf apply a.b errno {words} path=/srv/z")
    assert "Input/output error" in bench.run(f"{JOIN} cat /srv/z 2>&1; true")
    said = bench.run(f"stormcell-guest bpf apply a.b errno {words} 2>&1; true")
    assert "a fault of the name 'a.b' is in force already" in said
    bench.run("stormcell-guest bpf clear a.b; stormcell-guest bpf clear a.b")
    assert bench.run(f"{JOIN} cat /srv/z; ls -A {ours}") == "hi\n"
    bench.run(f"stormcell-guest bpf load half errno {words}; rm {ours}/half/map_config; stormcell-guest bpf clear half")
    assert bench.run(f"ls -A {ours}") == ""


def test_two_faults_at_once_and_one_after_the_other(bench):
    first = "by=service what=victim call=open errno=EIO rate=1000000 every=0 limit=0 path=/srv/x"
    bench.run(f"stormcell-guest bpf apply one errno {first}")
    trial = bench.attempt(errno("open", path="/srv/y"), under=[f"{JOIN} cat /srv/x /srv/y /srv/z"])
    after = bench.run(f"{JOIN} cat /srv/x /srv/y 2>&1; stormcell-guest bpf show one errno {first}")
    bench.run("stormcell-guest bpf clear one")
    trial.proven()
    assert "x: Input/output error" in trial.said[0]
    assert "y: Cannot allocate memory" in trial.said[0]
    assert trial.said[0].startswith("hi")
    assert trial.acted == 1
    assert "x: Input/output error" in after
    assert '"acted": 2' in after


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"service": "nosuch"}, "No such file or directory"),
        ({"name": "nosuch"}, "there is no process of name 'nosuch'"),
        ({"user": "nosuch"}, "there is no user 'nosuch'"),
        ({"service": "victim", "path": "/nosuch/x"}, "No such file or directory"),
    ],
)
def test_what_is_not_there_is_refused_and_leaves_nothing(bench, spec, why):
    trial = bench.attempt({"kind": "syscall.errno", "call": "open", "errno": "EIO", **spec})
    assert trial.receipt.apply_ok is not True
    assert why in trial.stop
    assert trial.receipt.clean
    assert bench.run("ls -A /sys/fs/bpf/stormcell") == ""


READ_Y = {"kind": "file.errno", "path": "/srv/y", "operation": "read", "errno": "EIO"}


@pytest.mark.parametrize("spec", [errno("open", path="/srv/y"), errno("accept"), READ_Y])
def test_in_force_but_nothing_came_by(bench, spec):
    trial = bench.attempt(spec, under=[f"{JOIN} cat /srv/x"])
    assert (trial.receipt.in_force, trial.receipt.clean, trial.acted) == (True, True, 0)
