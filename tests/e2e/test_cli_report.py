"""`run --report` and `report` as a user runs them."""

import json
import shutil
import xml.etree.ElementTree as ET

from tests.e2e.stormcell_command import json_of, stormcell
from tests.unit.report.recorded import DATA

LATE = """\
name: late
question: Does a command still run when lo is late?
template: base
steady_state:
  - name: alive
    command: {run: "ping -c 2 -i 0.2 127.0.0.1"}
    expect: {exit_code: 0}
fault: {kind: net.delay, device: lo, delay: 20ms}
predict: survives
"""


def test_a_run_writes_its_report_and_its_folder_makes_the_same_again(home, tmp_path):
    (tmp_path / "late.yaml").write_text(LATE)
    out = tmp_path / "deep" / "out"
    done = stormcell("run", "--json", "--report", out, tmp_path / "late.yaml", home=home)
    assert done.returncode == 0, done.stderr
    assert f"report {out / 'report.html'}" in done.stderr
    (result,) = json_of(done)["results"]
    made = json.loads((out / "report.json").read_text())
    assert [run["verdict"] for run in made["runs"]] == ["survived"]
    assert made["runs"][0]["source"].endswith("late.yaml")
    suite = ET.parse(out / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    ET.fromstring((out / "report.html").read_text().partition("\n")[2])
    again = stormcell("report", result["folder"], "--out", tmp_path / "again", "--json", home=home)
    assert again.returncode == 0, again.stderr
    other = json.loads((tmp_path / "again" / "report.json").read_text())
    assert other["runs"][0]["timeline"] == made["runs"][0]["timeline"]


def test_a_place_that_takes_no_report_is_told_before_anything_is_started(home, tmp_path):
    (tmp_path / "late.yaml").write_text(LATE)
    (tmp_path / "file").write_text("")
    done = stormcell("run", "--report", tmp_path / "file", tmp_path / "late.yaml", home=home)
    assert done.returncode == 2
    assert "error:" in done.stderr and str(tmp_path / "file") in done.stderr and "Traceback" not in done.stderr
    assert not (home / "state" / "runs").exists()
    assert (
        stormcell("run", "--dry-run", "--report", tmp_path / "out", tmp_path / "late.yaml", home=home).returncode == 2
    )


def test_a_folder_that_is_no_run_is_named_and_the_others_are_reported(tmp_path):
    shutil.copytree(DATA / "cut-off", tmp_path / "cut-off")
    done = stormcell("report", tmp_path / "cut-off", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 2 and "this is no run's folder" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout.strip() == str(tmp_path / "out" / "report.html")
    made = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [run["verdict"] for run in made["runs"]] == ["unknown"] and len(made["problems"]) == 1


def test_the_schema_of_a_report_is_published():
    schema = json_of(stormcell("schema", "report"))
    assert schema["title"] == "Stormcell report" and {"runs", "schema", "problems"} <= set(schema["properties"])
