"""A sealed run in every face: its times have a star, and what it can be repeated from is told."""

import json
import shutil
import xml.etree.ElementTree as ET

import pytest

from stormcell.engine.sealed import bundle
from stormcell.judge.wording import GUEST_TIME
from stormcell.report.figures import clocks
from stormcell.report.junit import junit
from stormcell.report.load import load_report, load_run
from stormcell.report.model import Report
from stormcell.report.page import page
from tests.unit.report.recorded import DATA, everything, recorded

FOLDER = DATA / "sealed-loss"


def html(*names: str) -> ET.Element:
    runs = tuple(recorded(name) for name in names)
    text = page(Report(title="a title", made="2026-11-30T12:00:00Z", version="1", runs=runs))
    return ET.fromstring(text.partition("\n")[2])


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def test_the_model_has_both_clocks_the_command_and_what_it_is_a_function_of():
    recorded_as = bundle.read(FOLDER)
    run = recorded("sealed-loss")
    found = run.sealed
    assert found is not None
    assert (found.seed, found.snapshot, found.guest_seconds) == (7, recorded_as.snapshot, recorded_as.guest_seconds)
    assert found.ratio == pytest.approx(recorded_as.guest_seconds / recorded_as.host_seconds)
    assert found.replay == f"stormcell run --replay {FOLDER}"
    named = dict(found.inputs)
    assert recorded_as.inputs["kernel"].startswith(named["the guest's kernel"])
    assert named["QEMU"].startswith(recorded_as.inputs["qemu"]["version"])
    assert run.began == recorded_as.began and not run.began.startswith("2026-01-01")
    assert recorded("late-by-turns").sealed is None


def test_the_page_shows_it_and_explains_the_star_once_where_it_is_read_first():
    told = words(html("sealed-loss"))
    found = recorded("sealed-loss").sealed
    assert found is not None
    for said in (found.replay, found.snapshot, found.events_sha256, "Sealed: the same bits every time", "guest time*"):
        assert said in told
    assert told.count(GUEST_TIME) == 1
    assert told.index("2.719 s*") < told.index(GUEST_TIME) < told.index("Held before")
    assert "s of guest time* since the run began" in told and "in guest time* (log scale)" in told
    assert "wall time" not in told


def test_a_live_run_has_none_of_it():
    told = words(html("late-by-turns"))
    assert "guest time" not in told and " s*" not in told and "ms*" not in told and "Sealed" not in told


def test_a_table_of_several_says_which_are_sealed():
    table = words(html("sealed-loss", "late-by-turns").find("body/main/section") or ET.Element("none"))
    assert "sealed, 8.775 s* in 8.505 s" in table and GUEST_TIME in table


def test_junit_counts_the_host_s_time_and_has_the_guest_s_as_a_property():
    root = ET.fromstring(junit(everything()))
    suite = next(suite for suite in root if suite.get("name") == "sealed-loss.yaml")
    properties = {item.get("name"): item.get("value") for item in suite.iter("property")}
    sealed = bundle.read(FOLDER)
    assert suite.get("time") == f"{sealed.host_seconds:.3f}"
    assert properties["guest seconds"] == f"{sealed.guest_seconds:.3f}" and properties["sealed"] == "true"
    assert properties["snapshot"] == sealed.snapshot
    told = suite.findtext("testcase/system-out", "")
    assert f"* {GUEST_TIME}" in told and "repeat: stormcell run --replay " in told


@pytest.mark.parametrize("damage", ["missing", "torn", "endless", "before its end"])
def test_without_its_times_the_run_is_shown_all_the_same(tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(FOLDER, folder)
    path = folder / "sealed.json"
    about = json.loads(path.read_text())
    if damage == "missing":
        path.unlink()
    elif damage == "torn":
        path.write_text("{")
    elif damage == "endless":
        path.write_text(json.dumps({**about, "host_seconds": float("inf")}))
    else:
        path.write_text(json.dumps({**about, "host_seconds": 0.0, "guest_seconds": 0.0}))
    run = load_run(folder)
    assert run.verdict == "failed" and run.sealed is not None and run.sealed.seed == 7
    assert run.sealed.ratio is None
    report = load_report([(folder, "")])
    assert "It was cut off" in page(report) and junit(report)


@pytest.mark.parametrize(("guest", "host"), [(12.0, 6.0), (0.0, 0.0), (1e-6, 900.0), (30.0, 0.6)])
def test_the_longer_clock_fills_the_picture(guest, host):
    for width in (1040, 340):
        bars = [float(bar.get("width", "0")) for bar in ET.fromstring(clocks.draw(guest, host, width)).iter() if
                bar.get("class", "").startswith("clock-")]  # fmt: skip
        assert all(0 < bar < width - 86 for bar in bars)
        assert (bars[0] >= bars[1]) is (guest >= host)
