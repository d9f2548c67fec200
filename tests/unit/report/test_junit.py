"""JUnit XML as continuous integration counts it."""

import xml.etree.ElementTree as ET

from stormcell.report.junit import junit
from stormcell.report.model import Problem, Report
from tests.unit.report.recorded import everything, recorded


def test_a_verdict_is_a_failure_an_error_or_skipped():
    root = ET.fromstring(junit(everything()))
    counted = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "8", "failures": "3", "errors": "1", "skipped": "2"}
    found = {
        case.get("name"): [child.tag for child in case if child.tag != "system-out"] for case in root.iter("testcase")
    }
    assert found == {
        "late-by-turns": [], "power-cut-fixed": [], "stopped-early": ["failure"], "slow-database-first": ["failure"],
        "lossy-loopback": ["failure"], "cut-off": ["error"], "no-names-fixed": ["skipped"],
        "web-late.delay-44700us": ["skipped"],
    }  # fmt: skip


def test_a_suite_is_an_experiment_s_file_and_repeats_are_its_cases():
    run = recorded("no-names-fixed")
    again = Report("t", "2026-11-29T12:00:00Z", "1", (run, run, recorded("stopped-early")))
    suites = ET.fromstring(junit(again)).findall("testsuite")
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [
        ("no-names-fixed", "2"),
        ("stopped-early", "1"),
    ]
    names = [case.get("name") for case in suites[0].iter("testcase")]
    assert names == ["no-names-fixed (1)", "no-names-fixed (2)"]
    assert everything().runs[0].source.endswith(".yaml")
    named = {suite.get("name") for suite in ET.fromstring(junit(everything()))}
    assert "cut-off.yaml" in named


def test_the_reason_is_the_message_and_the_evidence_is_beside_it():
    root = ET.fromstring(junit(everything()))
    case = next(case for case in root.iter("testcase") if case.get("name") == "slow-database-first")
    failure = case.find("failure")
    assert failure is not None and failure.get("type") == "out_of_bounds"
    assert "success_rate 41.67 %" in failure.get("message", "")
    assert case.get("classname") == "net.delay" and float(case.get("time", "0")) > 10
    told = case.findtext("system-out", "")
    assert "receipt of net.delay: in force True" in told and "cannot know: " in told
    *_, skipped = root.iter("skipped")
    assert "touched nothing" in skipped.get("message", "")


def test_what_could_not_be_run_is_an_error_of_its_own():
    report = Report("t", "2026-11-29T12:00:00Z", "1", (), (Problem("a.yaml", "TemplateBroken", "files differ\nmore"),))
    (error,) = ET.fromstring(junit(report)).iter("error")
    assert (error.get("type"), error.get("message")) == ("TemplateBroken", "files differ")
