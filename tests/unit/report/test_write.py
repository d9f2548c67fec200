"""The three files: whole or not there, and one clear error when they cannot be."""

import subprocess
import sys
from pathlib import Path

import pytest

from stormcell.report.write import prepare, write
from stormcell.spec.errors import HostError
from tests.unit.report.recorded import DATA, everything

FULL = """
import resource, sys
from pathlib import Path
from stormcell.report.load import load_report
from stormcell.report.write import write
from stormcell.spec.errors import NoSpace

report = load_report([(Path(sys.argv[2]), "")])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write(report, Path(sys.argv[1]))
except NoSpace as error:
    print(error)
"""


def test_a_folder_that_is_there_keeps_what_else_it_holds(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.html").write_text("an older one")
    for _ in range(2):
        written = write(everything(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "mine.txt", "report.html", "report.json"]
    assert written.html.read_text().startswith("<!DOCTYPE html>")


def test_a_folder_is_made_with_its_parents(tmp_path):
    prepare(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_file_in_the_way_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(HostError) as caught:
            prepare(folder)
        assert caught.value.where == str(folder) and caught.value.exit_code == 2


def test_a_place_that_takes_no_files_is_an_error():
    with pytest.raises(HostError, match="cannot be written"):
        prepare(Path("/proc/self/report"))


def test_a_full_disk_leaves_the_older_report_and_no_pieces(tmp_path):
    (tmp_path / "report.html").write_text("an older one")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(DATA / "cut-off")], capture_output=True, text=True, check=True
    )
    assert "cannot be written" in done.stdout and "make room" in done.stdout and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "an older one"
