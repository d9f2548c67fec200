import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.record import ID, Record, RecordTorn, checked_metadata, checked_ports, checked_ttl, new_id
from stormcell.sandbox.snapshots import checked_name
from stormcell.spec.errors import SpecError


def make(name: str, **changes: Any) -> Record:
    base = Record(
        id=name,
        template="a" * 64,
        template_name="base",
        state="running",
        ttl_seconds=300.0,
        owner=ProcessRef.here(),
        machine=ProcessRef(1, 2, "boot"),
        metadata={"run": "näher\n1"},
        open_ports={"web": 80},
        ports={"web": 40123},
    )
    return dataclasses.replace(base, **changes)


def test_a_record_reads_back_as_it_was_written(tmp_path):
    folder = tmp_path / "sc-00000000"
    folder.mkdir()
    for record in (make(folder.name), make(folder.name, owner=None, machine=None, state="creating", raw=True)):
        record.write(folder)
        assert Record.read(folder) == record
    assert [entry.name for entry in folder.iterdir()] == ["record.json"]
    assert (folder / "record.json").stat().st_mode & 0o777 == 0o600


def test_no_record_is_none_and_a_torn_one_says_why(tmp_path):
    folder = tmp_path / "sc-00000000"
    folder.mkdir()
    assert Record.read(folder) is None
    make(folder.name).write(folder)
    whole = (folder / "record.json").read_bytes()
    for size in range(0, len(whole) - 1, 7):
        (folder / "record.json").write_bytes(whole[:size])
        with pytest.raises(RecordTorn):
            Record.read(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "sc-11111111"},
        {"state": "odd"},
        {"owner": 5},
        {"owner": {"pid": 1}},
        {"metadata": []},
        {"ports": {"a": {}}},
    ],
)
def test_a_record_with_a_wrong_field_is_torn(tmp_path, change):
    folder = tmp_path / "sc-00000000"
    folder.mkdir()
    make(folder.name).write(folder)
    data = json.loads((folder / "record.json").read_text()) | change
    (folder / "record.json").write_text(json.dumps(data))
    with pytest.raises(RecordTorn):
        Record.read(folder)


@given(st.binary(max_size=300))
def test_garbage_is_torn_and_never_another_error(tmp_path_factory, garbage):
    folder = tmp_path_factory.mktemp("sc")
    (folder / "record.json").write_bytes(garbage)
    with pytest.raises(RecordTorn):
        Record.read(folder)


def test_ids_are_short_and_differ():
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(ID.match(name) for name in ids)


@pytest.mark.parametrize(
    "metadata", [{"a": 1}, {1: "a"}, {"": "x"}, {"a": "\ud800"}, {"a": "x" * 70_000}, {str(i): "" for i in range(65)}]
)
def test_metadata_that_is_not_bounded_text_is_refused(metadata):
    with pytest.raises(SpecError):
        checked_metadata(metadata)


def test_good_metadata_passes():
    assert checked_metadata(None) == {}
    assert checked_metadata({"grüß": "dich"}) == {"grüß": "dich"}


@pytest.mark.parametrize("ports", [{"Web": 80}, {"": 80}, {"web": 0}, {"web": 65536}, {"web": True}, {"a b": 1}])
def test_bad_ports_are_refused(ports):
    with pytest.raises(SpecError):
        checked_ports(ports)


@pytest.mark.parametrize("ttl", [0, 0.5, -1, float("nan"), float("inf"), 31 * 86400, "5m", True, None])
def test_bad_ttls_are_refused(ttl):
    with pytest.raises(SpecError):
        checked_ttl(ttl)


@pytest.mark.parametrize("metadata", ["text", 7, [("a", "b")]])
def test_what_is_no_mapping_is_no_metadata(metadata):
    with pytest.raises(SpecError, match="no mapping"):
        checked_metadata(metadata)


@pytest.mark.parametrize("name", [None, 7, b"moment"])
def test_what_is_no_text_names_no_snapshot(name):
    with pytest.raises(SpecError, match="cannot name a snapshot"):
        checked_name(name)
