"""Bad input of the faults of disks and files: one clear error each."""

import pytest
from pydantic import ValidationError

from stormcell import faults

DELAY = {"kind": "block.delay", "path": "/srv", "read": "50ms"}
FLAKY = {"kind": "block.flaky", "path": "/srv", "up": "5s", "down": "5s"}
CORRUPT = {"kind": "block.corrupt", "path": "/srv"}
LIMIT = {"kind": "io.limit", "path": "/srv", "service": "web"}
QUOTA = {"kind": "disk.quota", "path": "/srv"}
REMOVE = {"kind": "file.remove", "path": "/srv/a"}
LOCK = {"kind": "file.lock", "path": "/srv/a"}

WRONG = [
    ({**DELAY, "path": "srv"}, "no absolute path"),
    ({**DELAY, "path": "/srv/../etc"}, "without '..'"),
    ({**DELAY, "share": "0%"}, "at least"),
    ({**DELAY, "share": 10}, "has no unit"),
    ({**DELAY, "share": "101%"}, "between 0% and 100%"),
    ({**DELAY, "cache": "flush"}, "'drop' or 'keep'"),
    ({**DELAY, "read": "7ms"}, "between 8ms and 5m"),
    ({**DELAY, "write": "6m"}, "between 8ms and 5m"),
    ({**DELAY, "read": 50}, "has no unit"),
    ({**DELAY, "delay": "50ms"}, "unknown field 'delay'"),
    ({"kind": "block.delay", "path": "/srv"}, "'read' or 'write' is needed"),
    ({"kind": "block.error", "path": "/srv", "operations": "flush"}, "'both', 'read' or 'write'"),
    ({"kind": "block.error"}, "Field required"),
    ({**FLAKY, "up": "500ms"}, "in whole seconds"),
    ({**FLAKY, "down": "1.5s"}, "in whole seconds"),
    ({**FLAKY, "up": "2h"}, "between 1s and 1h"),
    ({**FLAKY, "first": "both"}, "'down' or 'up'"),
    ({**FLAKY, "operations": "read"}, "'both' or 'write'"),
    ({**CORRUPT, "byte": 0}, "greater than or equal to 1"),
    ({**CORRUPT, "byte": 4097}, "less than or equal to 4096"),
    ({**CORRUPT, "value": 256}, "less than or equal to 255"),
    ({**CORRUPT, "byte": "1"}, "valid integer"),
    ({**CORRUPT, "operations": "both"}, "'read' or 'write'"),
    ({"kind": "block.drop-writes", "path": "/srv", "operations": "read"}, "unknown field 'operations'"),
    ({"kind": "block.readonly"}, "Field required"),
    (LIMIT, "one of 'read', 'write'"),
    ({**LIMIT, "read": "1KiB"}, "at least 16KiB"),
    ({**LIMIT, "write": "1mbit"}, "is no unit"),
    ({**LIMIT, "read_operations": 0}, "greater than or equal to 1"),
    ({**LIMIT, "write_operations": "10"}, "valid integer"),
    ({"kind": "io.limit", "path": "/srv", "read": "1MiB"}, "none is given"),
    ({**LIMIT, "cgroup": "/sys/fs/cgroup/a", "read": "1MiB"}, "'service' and 'cgroup' are given"),
    (QUOTA, "'leave' or 'leave_files' is needed"),
    ({**QUOTA, "leave": "0B", "user": "root"}, "lets root exceed every quota"),
    ({**QUOTA, "leave": "5%"}, "is no unit"),
    ({**QUOTA, "leave_files": -1}, "greater than or equal to 0"),
    ({**QUOTA, "leave": "0B", "of": "group"}, "'user' or 'folder'"),
    ({"kind": "file.mode", "path": "/a", "mode": "rwx"}, "should match pattern"),
    ({"kind": "file.mode", "path": "/a", "mode": 644}, "valid string"),
    ({"kind": "file.remove", "path": "a"}, "no absolute path"),
    ({"kind": "file.remove", "path": "/a", "made_anew": "both"}, "'restore' or 'keep'"),
    ({"kind": "file.truncate", "path": "/a", "to": "half"}, "is not a size"),
    ({"kind": "file.lock", "path": "/a", "how": "lease"}, "'flock' or 'fcntl'"),
]


@pytest.mark.parametrize(("spec", "said"), WRONG, ids=[f"{i}-{said[:30]}" for i, (_, said) in enumerate(WRONG)])
def test_wrong_input_is_refused_with_a_reason(spec, said):
    with pytest.raises(ValidationError) as refused:
        faults.parse(spec)
    assert said in str(refused.value)


TOGETHER = [
    (DELAY, FLAKY, True),
    (DELAY, {**CORRUPT, "path": "/srv/data/file"}, True),
    (DELAY, {**CORRUPT, "path": "/srv2"}, False),
    ({**DELAY, "path": "/"}, CORRUPT, True),
    (DELAY, {"kind": "disk.fill", "path": "/srv"}, False),
    ({"kind": "disk.fill", "path": "/srv"}, {"kind": "disk.fill", "path": "/srv", "leave": "5%"}, True),
    ({"kind": "disk.fill", "path": "/srv"}, {"kind": "disk.fill", "path": "/var"}, False),
    ({**LIMIT, "read": "1MiB"}, {**LIMIT, "read": "2MiB"}, True),
    ({**LIMIT, "read": "1MiB"}, {**LIMIT, "write": "2MiB"}, False),
    ({**LIMIT, "read": "1MiB"}, {**LIMIT, "service": "db", "read": "2MiB"}, False),
    ({**QUOTA, "leave": "0B"}, {**QUOTA, "leave_files": 0}, True),
    ({**QUOTA, "leave": "0B"}, {**QUOTA, "of": "folder", "leave": "0B"}, False),
    (REMOVE, {"kind": "file.mode", "path": "/srv/a"}, True),
    (REMOVE, {"kind": "file.truncate", "path": "/srv/a/b"}, True),
    (REMOVE, {**REMOVE, "path": "/srv/ab"}, False),
    (LOCK, LOCK, True),
    (LOCK, {**LOCK, "how": "fcntl"}, False),
    ({**LOCK, "shared": True}, {**LOCK, "shared": True}, False),
    ({"kind": "block.readonly", "path": "/srv"}, {"kind": "block.readonly", "path": "/srv"}, True),
]


@pytest.mark.parametrize(("one", "other", "clash"), TOGETHER)
def test_two_that_would_overwrite_each_other_are_named(one, other, clash):
    first, second = faults.parse(one), faults.parse(other)
    assert bool(first.conflicts(second)) is clash
    assert bool(second.conflicts(first)) is clash


CHANGES = [
    (DELAY, {**DELAY, "read": "1s"}, True),
    (DELAY, {**DELAY, "path": "/var"}, False),
    (DELAY, {**DELAY, "share": "5%"}, False),
    (DELAY, {**DELAY, "cache": "keep"}, False),
    (DELAY, FLAKY, False),
    (FLAKY, {**FLAKY, "up": "9s"}, False),
    ({**FLAKY, "first": "up"}, {**FLAKY, "first": "up", "up": "9s"}, True),
    (CORRUPT, {**CORRUPT, "byte": 7}, False),
    ({**LIMIT, "read": "1MiB"}, {**LIMIT, "read": "2MiB"}, True),
    ({**LIMIT, "read": "1MiB"}, {**LIMIT, "write": "2MiB"}, False),
    ({**LIMIT, "read": "1MiB"}, {**LIMIT, "path": "/var", "read": "2MiB"}, False),
]


@pytest.mark.parametrize(("one", "other", "can"), CHANGES)
def test_what_can_be_changed_while_it_acts(one, other, can):
    commands = faults.parse(one).change(faults.parse(other))
    assert (commands is not None) is can
    if commands:
        assert commands[0].argv[2:4] == ("change", "fault")
