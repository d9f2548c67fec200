import json
import subprocess
import sys

import pytest

from stormcell.engine.folder import RunFolder, read_plan, read_receipts
from stormcell.spec.errors import SpecError


def test_events_are_on_disk_at_once_and_in_order(tmp_path):
    folder = RunFolder.create(tmp_path / "runs", "x")
    for number in range(3):
        folder.event({"event": "e", "n": number})
        lines = (folder.path / "events.jsonl").read_text().splitlines()
        assert [json.loads(line)["n"] for line in lines] == list(range(number + 1))
    folder.close()


def test_a_folder_is_for_its_user_alone(tmp_path):
    folder = RunFolder.create(tmp_path / "runs", "x")
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_two_runs_at_once_have_two_folders(tmp_path):
    assert RunFolder.create(tmp_path, "x").path != RunFolder.create(tmp_path, "x").path


def test_what_is_no_runs_folder_says_so(tmp_path):
    with pytest.raises(SpecError, match=r"no run's folder: plan\.json"):
        read_plan(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 99}', "null", '"x"', "[" * 100_000])
def test_a_damaged_plan_is_one_error(tmp_path, content):
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(SpecError, match=r"plan\.json is damaged"):
        read_plan(tmp_path)


def test_a_run_that_ended_before_it_had_receipts_has_none(tmp_path):
    assert read_receipts(tmp_path) == {}


FULL = """
import resource, sys
from pathlib import Path
from stormcell.engine import api
from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_mapping
from stormcell.spec.errors import NoSpace

loaded = load_mapping({
    "name": "x", "template": "base", "fault": {"kind": "clock.jump", "by": "1h"},
    "steady_state": [{"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}],
})
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    api.begun(Path(sys.argv[1]), loaded, compile_plan(loaded.experiment, loaded.disturbances))
except NoSpace as error:
    print(error)
"""


def test_a_start_without_room_leaves_no_folder(tmp_path):
    """Not one byte may be written to a file, as on a disk that is full."""
    runs = tmp_path / "runs"
    done = subprocess.run([sys.executable, "-c", FULL, str(runs)], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert list(runs.iterdir()) == []


NO_ROOM = """
import resource, sys
from pathlib import Path
from stormcell.engine.folder import RunFolder
from stormcell.machine.durable import write_atomically
from stormcell.report.write import _replace
from stormcell.spec.errors import NoSpace

folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
for write in (
    lambda text: RunFolder(folder).write("run.json", text),
    lambda text: write_atomically(folder / "record.json", text),
    lambda text: _replace(folder / "report.html", text),
):
    write("old")
    try:
        write("a new one")
    except (NoSpace, OSError) as error:
        print(type(error).__name__)
"""


def test_a_file_that_could_not_be_written_whole_is_the_old_one_and_nothing_lies_beside_it(tmp_path):
    argv = [sys.executable, "-c", NO_ROOM, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NoSpace", "OSError", "OSError"]
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"run.json": "old", "record.json": "old", "report.html": "old"}
