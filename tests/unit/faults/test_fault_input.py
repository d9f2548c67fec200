"""Bad input: one clear error each, that names the field, the rule and a way to mend it."""

import pytest
from pydantic import ValidationError

from stormcell import faults
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError

DELAY = {"kind": "net.delay", "delay": "100ms"}
REJECT = {"kind": "net.reject"}
RATE = {"kind": "net.rate", "rate": "1mbit"}
MEMORY = {"kind": "memory.limit", "service": "web", "max": "64MiB"}
CPU = {"kind": "cpu.limit", "service": "web", "percent": "20%"}
FILL = {"kind": "disk.fill", "path": "/srv"}
INODES = {"kind": "disk.inodes", "path": "/srv"}
KILL = {"kind": "process.kill"}
SECCOMP = {"kind": "syscall.seccomp", "call": "fsync", "errno": "EIO"}

WRONG = [
    ({"kind": "net.dealy"}, "there is no fault 'net.dealy'; did you mean 'net.delay'?"),
    ({"kind": "explode"}, "known: "),
    ({"kind": 7}, "there is no fault '7'"),
    ({}, "there is no fault 'None'"),
    ({**DELAY, "jiter": "5ms"}, "unknown field 'jiter'; did you mean 'jitter'?"),
    ({"kind": "net.delay"}, "Field required"),
    # traffic
    ({**DELAY, "device": "eth 0"}, "'eth 0' is no device name"),
    ({**DELAY, "device": "-batch"}, "'-batch' is no device name"),
    ({**DELAY, "device": "interface-of-16-chars"}, "is no device name"),
    ({**DELAY, "device": []}, "write one text or a list of them"),
    ({**DELAY, "device": ["lo", "lo"]}, "the same entry twice"),
    ({**DELAY, "device": 3}, "write one text or a list of them"),
    ({**DELAY, "direction": "up"}, "'out', 'in' or 'both'"),
    ({**DELAY, "address": "db.example"}, "a name into 'host'"),
    ({**DELAY, "address": "10.0.0.7/8"}, "write 10.0.0.7 or 10.0.0.0/8"),
    ({**DELAY, "address": "0.0.0.0/0"}, "is every address; leave it out"),
    ({**DELAY, "address": "10.0.0.1; rm -rf /"}, "is no address"),
    ({**DELAY, "remote_port": 0}, "greater than or equal to 1"),
    ({**DELAY, "remote_port": 65536}, "less than or equal to 65535"),
    ({**DELAY, "local_port": "80"}, "valid integer"),
    ({**DELAY, "local_port": True}, "valid integer"),
    ({**DELAY, "protocol": "sctp"}, "'tcp', 'udp' or 'icmp'"),
    ({**DELAY, "protocol": "icmp", "remote_port": 7}, "icmp has no ports"),
    # delay
    ({**DELAY, "delay": "300"}, "has no unit"),
    ({**DELAY, "delay": "300 parsecs"}, "'parsecs' is no unit"),
    ({**DELAY, "delay": "0s"}, "between 1us and 2m"),
    ({**DELAY, "delay": "3m"}, "between 1us and 2m"),
    ({**DELAY, "delay": "-1s"}, "out of range"),
    ({**DELAY, "jitter": "200ms"}, "larger than the delay"),
    ({**DELAY, "correlation": "10%"}, "without jitter they do nothing"),
    ({**DELAY, "distribution": "normal"}, "without jitter they do nothing"),
    ({**DELAY, "jitter": "5ms", "distribution": "poisson"}, "'uniform', 'normal'"),
    # loss
    ({"kind": "net.loss", "loss": "0%"}, "loses nothing"),
    ({"kind": "net.loss", "loss": "101%"}, "between 0% and 100%"),
    ({"kind": "net.loss", "loss": 0.1}, "has no unit"),
    ({"kind": "net.loss"}, "none is given"),
    ({"kind": "net.loss", "loss": "1%", "every": 5}, "'loss' and 'every' are given"),
    ({"kind": "net.loss", "every": 1}, "greater than or equal to 2"),
    ({"kind": "net.loss", "every": 5, "correlation": "1%"}, "correlation belongs to 'loss'"),
    ({"kind": "net.loss", "loss": "1%", "burst_end": "5%"}, "'burst_end' belongs to 'burst_start'"),
    ({"kind": "net.loss", "burst_start": "1%", "p31": "5%"}, "'p31' belongs to 'p13'"),
    ({"kind": "net.loss", "p13": "0%"}, "loses nothing"),
    # duplicate, corrupt, reorder, slot
    ({"kind": "net.duplicate", "duplicate": "0%"}, "doubles nothing"),
    ({"kind": "net.corrupt", "corrupt": "0%"}, "damages nothing"),
    ({"kind": "net.reorder", "reorder": "0%", "delay": "1ms"}, "reorders nothing"),
    ({"kind": "net.reorder", "reorder": "100%", "delay": "1ms"}, "none is overtaken"),
    ({"kind": "net.reorder", "reorder": "10%"}, "Field required"),
    ({"kind": "net.reorder", "reorder": "10%", "delay": "3m"}, "between 1us and 2m"),
    ({"kind": "net.slot", "every": "1us"}, "between 100us and 1m"),
    ({"kind": "net.slot", "every": "10ms", "at_most": "5ms"}, "is between 'every' (10ms) and 1m"),
    ({"kind": "net.slot", "every": "10ms", "slot_bytes": "100B"}, "a packet has to fit"),
    # impair
    ({"kind": "net.impair"}, "nothing is asked for"),
    ({"kind": "net.impair", "loss": "1%"}, "write kind: net.loss"),
    ({"kind": "net.impair", "loss": "1%", "jitter": "1ms", "corrupt": "1%"}, "larger than the delay"),
    ({"kind": "net.impair", "delay": "1ms", "loss": "1%", "distribution": "normal"}, "without jitter"),
    ({"kind": "net.impair", "loss": "0.00001%", "delay": "1ms"}, "too small to happen"),
    ({"kind": "net.impair", "delay": "1ms", "rate": "1mbit", "loss_correlation": "1%"}, "belongs to 'loss'"),
    ({"kind": "net.impair", "loss": "1%", "reorder": "1%"}, "'reorder' needs 'delay'"),
    ({"kind": "net.impair", "loss": "1%", "delay": "1ms", "gap": 2}, "'gap' belongs to 'reorder'"),
    ({"kind": "net.impair", "loss": "1%", "rate": "1kbit"}, "between 8kbit and 10gbit"),
    ({"kind": "net.impair", "loss": "1%", "rate": "1mbit", "queue": "2m"}, "between 1ms and 1m"),
    ({"kind": "net.impair", "loss": "1%", "delay": "3m"}, "between 1us and 2m"),
    # hosts and connections
    ({"kind": "net.down", "device": "eth 0"}, "'eth 0' is no device name"),
    ({"kind": "net.cut", "remote_port": 0}, "greater than or equal to 1"),
    ({"kind": "net.cut", "address": "db.example"}, "a name into 'host'"),
    ({**DELAY, "host": "10.0.0.1"}, "addresses go into 'address'"),
    ({**DELAY, "host": "a b"}, "is no host name"),
    ({**DELAY, "host": "-rf.example"}, "is no host name"),
    ({"kind": "net.drop", "connections": "new", "protocol": "udp"}, "only TCP has connections"),
    ({"kind": "net.drop", "connections": "old"}, "'all', 'new' or 'established'"),
    # rate
    ({**RATE, "shaper": "netem", "burst": "100KiB"}, "'burst' is a parameter of the other shaper"),
    ({**RATE, "queue_packets": 5}, "write shaper: netem"),
    ({**RATE, "shaper": "netem", "cell_overhead": 5}, "belongs to 'cell_size'"),
    ({**RATE, "rate": "1MB"}, "is no unit of a bit rate"),
    ({**RATE, "rate": "1kbit"}, "between 8kbit and 10gbit"),
    ({**RATE, "rate": "20gbit"}, "between 8kbit and 10gbit"),
    ({**RATE, "burst": "1KiB"}, "between 2KiB and 64MiB"),
    ({**RATE, "device": "lo", "burst": "16KiB"}, "its burst is at least 68KiB"),
    ({**RATE, "rate": "8kbit", "burst": "1MiB"}, "takes too long to fill"),
    ({**RATE, "queue": "2m"}, "between 1ms and 1m"),
    # reject
    ({**REJECT, "with": "reset"}, "'tcp-reset'"),
    ({**REJECT, "protocol": "udp"}, "only TCP knows a reset"),
    ({"kind": "dns.drop", "device": "lo"}, "did you mean 'devices'?"),
    # cgroups
    ({**MEMORY, "cgroup": "/sys/fs/cgroup/x"}, "'service' and 'cgroup' are given"),
    ({"kind": "memory.limit", "max": "1GiB"}, "none is given"),
    ({**MEMORY, "max": "4KiB"}, "at least 1MiB"),
    ({**MEMORY, "max": 64}, "has no unit"),
    ({**MEMORY, "service": "../agent"}, "is no name of a service"),
    ({"kind": "memory.limit", "cgroup": "/etc", "max": "1GiB"}, "no cgroup below /sys/fs/cgroup"),
    ({"kind": "memory.limit", "cgroup": "/sys/fs/cgroup/stormcell/agent", "max": "1GiB"}, "has to survive"),
    ({"kind": "memory.limit", "cgroup": "/sys/fs/cgroup/a/../stormcell", "max": "1GiB"}, "without '..'"),
    ({**CPU, "percent": "0.5%"}, "at least 1%"),
    ({**CPU, "percent": 20}, "has no unit"),
    ({**CPU, "percent": "1%", "period": "50ms"}, "choose a longer period"),
    ({**CPU, "period": "2s"}, "between 1ms and 1s"),
    # disks
    ({**FILL, "path": "srv"}, "no absolute path"),
    ({**FILL, "path": "/srv/../etc"}, "without '..'"),
    ({**FILL, "leave": "5"}, "has no unit"),
    ({**FILL, "leave": "-1MiB"}, "not negative"),
    ({**FILL, "leave": "100%"}, "below 100%"),
    ({**FILL, "user": "no body"}, "is no name of a user"),
    ({**INODES, "leave": "64KiB"}, "no number of files"),
    ({**INODES, "leave": -1}, "no number of files"),
    ({**INODES, "leave": True}, "no number of files"),
    ({**INODES, "user": "nobody"}, "unknown field 'user'"),
    # the rest
    ({"kind": "clock.jump", "by": "0s"}, "between 10ms and 50 years"),
    ({"kind": "clock.jump", "by": "20000d"}, "between 10ms and 50 years"),
    ({"kind": "clock.jump", "by": "-1"}, "has no unit"),
    ({"kind": "clock.jump", "offset": "1h"}, "unknown field 'offset'"),
    ({"kind": "clock.jump", "by": "1h", "stop_daemons": "chronyd"}, "valid boolean"),
    ({"kind": "clock.drift", "by": "11%"}, "the kernel takes 1ppm to 10%"),
    ({"kind": "clock.drift", "by": "0%"}, "the kernel takes 1ppm to 10%"),
    ({"kind": "clock.drift", "by": 5}, "has no unit"),
    ({"kind": "clock.drift", "by": "5/s"}, "is no unit of a rate"),
    ({"kind": "clock.slow", "speed": "96%"}, "between 0% and 95%"),
    ({"kind": "clock.slow", "speed": "50%", "step": "1ms"}, "between 5ms and 10s"),
    ({"kind": "clock.strobe", "by": "1ms"}, "between 10ms and 365 days"),
    ({"kind": "clock.strobe", "by": "1h", "period": "1ms"}, "between 10ms and 10m"),
    ({"kind": "clock.leap", "second": "both"}, "'insert' or 'delete'"),
    ({"kind": "clock.leap", "lead": "1s"}, "between 2500ms and 1h"),
    ({"kind": "clock.zone", "zone": "../../root"}, "is no name of a time zone"),
    ({"kind": "clock.zone", "zone": "/etc/passwd"}, "is no name of a time zone"),
    ({"kind": "clock.zone"}, "Field required"),
    ({"kind": "clock.namespace", "service": "web"}, "such a namespace changes nothing"),
    ({"kind": "clock.namespace", "monotonic": "1ms"}, "between 100ms and 50 years"),
    ({"kind": "clock.namespace", "realtime": "1h"}, "no namespace moves CLOCK_REALTIME"),
    ({"kind": "clock.namespace", "raw": "1h", "monotonic": "1h"}, "no namespace moves CLOCK_MONOTONIC_RAW alone"),
    ({**KILL}, "none is given"),
    ({**KILL, "service": "web", "pid": 4}, "'service' and 'pid' are given"),
    ({**KILL, "pid": 0}, "greater than or equal to 1"),
    ({**KILL, "name": "/usr/bin/redis"}, "is no name of a program"),
    ({**KILL, "name": "a", "signal": "STOP"}, "'KILL'"),
    ({**KILL, "name": "a", "processes": "main"}, "is about a service"),
    ({"kind": "machine.pause"}, "Field required"),
    ({"kind": "machine.pause", "for": "30s"}, "between 50ms and 20s"),
    ({"kind": "machine.pause", "for": "1s", "delay": "2m"}, "at most 1m"),
    ({"kind": "machine.pause", "for": "1s", "clock": "jumps"}, "'stops' or 'runs'"),
    ({"kind": "machine.slow", "speed": "1%"}, "between 5% and 95%"),
    ({"kind": "machine.slow", "speed": "50%", "period": "1ms"}, "between 5ms and 500ms"),
    ({"kind": "machine.slow"}, "Field required"),
    ({"kind": "machine.link", "device": "eth0"}, "unknown field 'device'"),
    ({"kind": "machine.crash"}, "Field required"),
    ({"kind": "machine.crash", "mode": "explode"}, "'panic', 'reboot' or 'power'"),
    ({**KILL, "pid": 1}, "process 1 is the guest's init, which keeps the agent alive"),
    ({"kind": "memory.hold", "pid": 1, "size": "1MiB"}, "there is machine.crash"),
    # system calls of what is started under the fault
    ({**SECCOMP, "call": "getrandon"}, "no system call 'getrandon'; did you mean 'getrandom'?"),
    ({**SECCOMP, "call": []}, "write one text or a list of them"),
    ({**SECCOMP, "call": ["fsync", "fsync"]}, "the same entry twice"),
    ({**SECCOMP, "call": "exit_group"}, "cannot be made to fail: the process could not end"),
    ({**SECCOMP, "call": "sleep", "exact": True}, "'sleep' is a group and no system call"),
    ({**SECCOMP, "errno": "EBROKEN"}, "there is no errno 'EBROKEN'"),
    ({"kind": "syscall.seccomp", "call": "fsync"}, "neither 'errno' nor 'delay' is given"),
    ({**SECCOMP, "delay": "2h"}, "it is up to 1h"),
    ({**SECCOMP, "from_start": True}, "'from_start' is about a service"),
    ({**SECCOMP, "rate": "10%", "every": 2}, "two ways to say how often"),
    ({**SECCOMP, "seed": -1}, "greater than or equal to 0"),
    ({**SECCOMP, "name": "redis"}, "unknown field 'name'"),
]


@pytest.mark.parametrize(("spec", "said"), WRONG, ids=[f"{i}-{said[:30]}" for i, (_, said) in enumerate(WRONG)])
def test_wrong_input_is_refused_with_a_reason(spec, said):
    with pytest.raises(ValidationError) as refused:
        faults.parse(spec)
    assert said in str(refused.value)


def test_the_engine_can_name_file_line_and_field():
    text = "name: x\nfault:\n  kind: net.delay\n  delay: 100ms\n  jitter: 1h\n"
    document = yamlfile.parse(text, "a.yaml")
    with pytest.raises(SpecError) as refused:
        yamlfile.validated(document, lambda data: faults.parse(data["fault"]), "fault", at=("fault",))
    assert refused.value.where == "a.yaml:2"
    assert "the jitter (1h = 3600s) is larger than the delay (100ms)" in refused.value.what


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  delay: 100", "fault.delay: '100' has no unit"),
        ("  dellay: 100ms", "fault.dellay: unknown field 'dellay'; did you mean 'delay'?"),
        ("  kind: net.delayed", "fault.kind: there is no fault 'net.delayed'; did you mean 'net.delay'?"),
    ],
)
def test_a_field_is_named_with_its_line(line, said):
    text = "name: x\nfault:\n" + ("" if "kind" in line else "  kind: net.delay\n") + line + "\n"
    document = yamlfile.parse(text, "a.yaml")
    with pytest.raises(SpecError) as refused:
        yamlfile.validated(document, lambda data: faults.parse(data["fault"]), "fault", at=("fault",))
    assert said in refused.value.what
    assert refused.value.where == f"a.yaml:{text.splitlines().index(line) + 1}"


def test_one_device_or_address_needs_no_list():
    one = faults.parse({**DELAY, "device": "lo", "address": "10.0.0.1/32"})
    assert one == faults.parse({**DELAY, "device": ["lo"], "address": ["10.0.0.1"]})
    assert one.params()["device"] == "lo"
    assert one.params()["address"] == "10.0.0.1"
