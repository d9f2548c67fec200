"""The faults of disks and files judge what a kernel really said; see fault_record.py."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stormcell import faults
from stormcell.spec.fault import Output, Reading
from tests.unit.faults.fault_cases import SPECS, compares, one

OTHER_PARAMETERS = [
    ("block.delay", {"read": "101ms"}),
    ("block.delay", {"write": "51ms"}),
    ("block.delay", {"path": "/srv"}),
    ("block.delay", {"cache": "keep"}),
    ("block.delay", {"share": "99%"}),
    ("block.delay.share", {"share": "26%"}),
    ("block.delay.share", {"share": "100%"}),
    ("block.error", {"operations": "read"}),
    ("block.error.read", {"operations": "both"}),
    ("block.error.read", {"operations": "write"}),
    ("block.error.read", {"share": "49%"}),
    ("block.error.write", {"operations": "read"}),
    ("block.flaky", {"up": "2s"}),
    ("block.flaky", {"down": "59s"}),
    ("block.flaky", {"operations": "write"}),
    ("block.flaky.write", {"operations": "both"}),
    ("block.drop-writes", {"path": "/srv/data"}),
    ("block.drop-writes", {"cache": "keep"}),
    ("block.corrupt", {"operations": "write"}),
    ("block.corrupt.write", {"value": 67}),
    ("block.corrupt.write", {"byte": 2}),
    ("block.corrupt.write", {"operations": "read"}),
    ("block.readonly", {"path": "/srv"}),
    ("io.limit", {"write": "2MiB"}),
    ("io.limit", {"write_operations": 101}),
    ("io.limit", {"read": "1MiB"}),
    ("io.limit", {"path": "/srv"}),
    ("io.limit.name", {"read_operations": 51}),
    ("disk.quota", {"path": "/srv"}),
    ("disk.quota", {"leave": "32KiB"}),
    ("disk.quota", {"leave_files": 2}),
    ("disk.quota", {"of": "folder"}),
    ("disk.quota.folder", {"of": "user"}),
    ("disk.quota.folder", {"leave": "1MiB"}),
    ("file.mode", {"mode": "0001"}),
    ("file.truncate", {"to": "101B"}),
    ("file.lock", {"how": "fcntl"}),
    ("file.lock", {"shared": True}),
    ("file.lock", {"path": "/var/tmp/other"}),
    ("file.lock.fcntl", {"shared": False}),
]


def edited(reading: Reading, name: str, **changes: object) -> Reading:
    """A reading in which the JSON of one command says something else."""
    shown = json.loads(reading.outputs[name].out) | changes
    return Reading(outputs={**reading.outputs, name: Output(exit=0, out=json.dumps(shown))})


@pytest.mark.parametrize(("name", "other"), OTHER_PARAMETERS)
def test_every_parameter_is_compared_with_what_the_kernel_shows(name, other):
    compares(name, other)


def test_a_table_that_is_not_the_one_that_was_loaded_is_seen():
    record = one("block.delay.share")
    table = json.loads(record.during.outputs["block"].out)["table"]
    for line, changed in ((0, [0, 8, "error", ""]), (1, [*table[1][:3], "7:0 0"]), (-1, "torn")):
        wrong = [*table]
        wrong[line] = changed
        assert not record.fault.in_force(record.before, edited(record.during, "block", table=wrong))
    assert record.fault.in_force(record.before, edited(record.during, "block", table=table))


@pytest.mark.parametrize("left", [{"error": "253:1"}, {"shadow": "7:1"}, {"watched": 1}, {"queued": []}, {"act": {}}])
def test_a_helper_or_counter_that_is_left_is_not_clean(left):
    record = one("block.error.read")
    assert record.undone is not None
    assert record.fault.clean(record.before, record.undone)
    assert not record.fault.clean(record.before, edited(record.undone, "block", **left))


def test_who_asked_the_disk_and_how_long_it_took_is_noted():
    record = one("block.delay")
    notes = "; ".join(record.fault.notes(record.before, record.during, record.after))
    assert "requests to the device by process: dd[" in notes
    assert "await of the device: a read took" in notes
    assert "reads met bad sectors and took 10" in notes
    record = one("block.error")
    assert any("failed with EIO" in note for note in record.fault.notes(record.before, record.during, record.after))


def test_writes_that_reached_the_disk_do_not_count_as_dropped():
    record = one("block.drop-writes")
    shown = json.loads(record.after.outputs["block"].out)
    shown["stats"]["disk"]["write_sectors"] += record.acted
    assert record.fault.acted(record.during, edited(record.after, "block", stats=shown["stats"])) == 0


WORDS = """act table bad disk of stats met failed queued phase waiting device refused probe errors at_act
now counts limit locks holders moved limits stat"""
KEYS = st.sampled_from(WORDS.split())
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)
STORAGE = [name for name in SPECS if name.split(".")[0] in ("block", "disk", "io", "file")]


@given(st.sampled_from(STORAGE), ANY)
@example("disk.quota.folder", {"refused": {"act": -1}})
@example("block.readonly", {"refused": {"act": -1}})
@settings(max_examples=400, deadline=None)
def test_whatever_a_guest_writes_is_judged_without_a_crash(name, written):
    fault = faults.parse(SPECS[name])
    names = [command.name for command in fault.plan().read]
    reading = Reading(outputs={key: Output(exit=0, out=json.dumps(written)) for key in names})
    assert fault.in_force(reading, reading) is False
    assert fault.acted(reading, reading) >= 0
    fault.clean(reading, reading)
    fault.notes(reading, reading, reading)


def test_a_file_that_came_back_as_another_is_not_clean():
    for name in ("file.remove", "file.truncate"):
        record = one(name)
        assert record.undone is not None
        now = json.loads(record.undone.outputs["file"].out)["now"]
        for change in ({"inode": 1}, {"digest": 1}, {"size": 1}, {"owner": [1, 1]}, {"mode": "0777"}):
            assert not record.fault.clean(record.before, edited(record.undone, "file", now=now | change))
        assert not record.fault.clean(record.before, edited(record.undone, "file", away=True))


def test_a_target_that_makes_the_file_anew_answers_to_the_fault():
    record = one("file.remove")
    now = json.loads(record.before.outputs["file"].out)["now"] | {"inode": 1}
    after = edited(record.after, "file", now=now)
    assert record.fault.lasted(record.before, record.during, after)
    assert any("has changed it meanwhile" in note for note in record.fault.notes(record.before, record.during, after))
    assert not record.fault.lasted(record.before, record.during, edited(record.after, "file", away=False))


def test_who_met_it_is_noted():
    for name, said in (
        ("file.mode", "calls that named it got EACCES"),
        ("file.remove", "calls that named it got ENOENT"),
        ("file.truncate", "calls that named it got ok"),
        ("file.lock", "was refused (EAGAIN)"),
        ("disk.quota", "got EDQUOT"),
        ("block.readonly", "got EROFS"),
        ("io.limit", "applies to: direct I/O"),
        ("disk.fill", "/var/tmp is on /dev/vda (ext4)"),
    ):
        record = one(name)
        notes = record.fault.notes(record.before, record.during, record.after)
        assert any(said in note for note in notes), (name, notes)


def test_a_lock_of_somebody_else_is_not_ours():
    record = one("file.lock")
    assert not record.fault.in_force(record.before, edited(record.during, "lock", holders=[]))
