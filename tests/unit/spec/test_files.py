import errno
import os
from pathlib import Path

import pytest

from stormcell.engine.folder import read_plan
from stormcell.judge.events import read_events
from stormcell.spec.errors import SpecError
from stormcell.spec.files import read_regular, unfinished


def test_a_regular_file_is_read_whole(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert read_regular(tmp_path / "file") == b"x" * 1000
    assert read_regular(tmp_path / "file", 1000) == b"x" * 1000


def test_what_is_larger_is_refused_unread(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 1001)
    with pytest.raises(OSError, match="more than") as caught:
        read_regular(tmp_path / "file", 1000)
    assert caught.value.errno == errno.EFBIG


def test_a_pipe_a_device_and_a_folder_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match=r"regular|directory"):
            read_regular(path)


def test_a_pipe_in_a_run_folder_is_no_run(tmp_path):
    for name in ("plan.json", "events.jsonl"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(SpecError, match="no run's folder"):
        read_plan(tmp_path)
    with pytest.raises(SpecError, match="cannot be read"):
        read_events(tmp_path / "events.jsonl")


def test_what_could_not_be_written_whole_is_gone(tmp_path):
    with pytest.raises(KeyboardInterrupt), unfinished(tmp_path / "half"):
        (tmp_path / "half").write_text("ha")
        raise KeyboardInterrupt
    with pytest.raises(PermissionError), unfinished(tmp_path / "never made"):
        raise PermissionError
    with unfinished(tmp_path / "whole"):
        (tmp_path / "whole").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
