import json
import os

import pytest

from stormcell.spec.errors import TemplateBroken
from stormcell.template.manifest import NAME, verify_files, write_manifest


@pytest.fixture
def built(tmp_path):
    (tmp_path / "state").write_bytes(b"device state")
    (tmp_path / "memory").write_bytes(b"\0" * 100_000 + b"page")
    write_manifest(tmp_path, {"name": "t"})
    return tmp_path


def test_whole_files_are_accepted(built):
    assert verify_files(built)["name"] == "t"
    assert verify_files(built, full=True)["name"] == "t"


def test_a_renamed_folder_is_still_whole(built):
    moved = built.rename(built.with_name("moved"))
    assert verify_files(moved)


def test_one_byte_that_differs_is_refused(built):
    with (built / "memory").open("r+b") as file:
        file.seek(50_000)
        file.write(b"\1")
    with pytest.raises(TemplateBroken, match="memory"):
        verify_files(built)


def test_one_byte_behind_the_back_of_the_quick_check_is_found_by_the_full_one(built):
    before = (built / "memory").stat()
    with (built / "memory").open("r+b") as file:
        file.write(b"\1")
    os.utime(built / "memory", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert verify_files(built)
    with pytest.raises(TemplateBroken, match="memory"):
        verify_files(built, full=True)


def test_the_same_bytes_with_another_time_are_accepted(built):
    os.utime(built / "state", (1, 1))
    assert verify_files(built)


def test_a_copy_is_read_once(built, monkeypatch):
    os.utime(built / "state", (1, 1))
    verify_files(built)
    monkeypatch.setattr("stormcell.template.manifest.sha256", lambda _: pytest.fail("it was read again"))
    assert verify_files(built)["name"] == "t"


@pytest.mark.parametrize("harm", ["cut", "gone", "longer"])
def test_a_file_that_is_not_whole_is_refused(built, harm):
    path = built / "memory"
    if harm == "gone":
        path.unlink()
    else:
        os.truncate(path, 50_000 if harm == "cut" else 200_000)
    with pytest.raises(TemplateBroken, match="memory"):
        verify_files(built)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {}}', '{"files": {"memory": {}}}'])
def test_a_manifest_that_is_not_whole_means_half_built(built, text):
    (built / NAME).write_text(text)
    with pytest.raises(TemplateBroken):
        verify_files(built)


def test_no_manifest_means_half_built(built):
    (built / NAME).unlink()
    with pytest.raises(TemplateBroken):
        verify_files(built)


def test_the_manifest_names_every_file_with_its_digest(built):
    files = json.loads((built / NAME).read_text())["files"]
    assert set(files) == {"memory", "state"}
    assert all(len(entry["sha256"]) == 64 for entry in files.values())
