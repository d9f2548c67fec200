"""The page: well-formed, complete in itself, the verdict before everything else."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from stormcell.report.compare import Cell, CellNumber, Comparison, Difference, Matrix, MatrixRow, Point, Threshold
from stormcell.report.evidence import Why
from stormcell.report.junit import junit
from stormcell.report.model import Branch, Brief, Campaign, Problem, Report
from stormcell.report.page import page
from stormcell.report.sealedpage import timed
from tests.unit.report.recorded import NAMES, everything, recorded


def report_of(*names: str, **more) -> Report:
    runs = tuple(recorded(name) for name in names)
    return Report(title="a title", made="2026-11-29T12:00:00Z", version="1", runs=runs, **more)


def parsed(report: Report) -> ET.Element:
    doctype, _, rest = page(report).partition("\n")
    assert doctype == "<!DOCTYPE html>"
    return ET.fromstring(rest)


def words_of(element: ET.Element | None) -> str:
    assert element is not None
    return " ".join("".join(element.itertext()).split())


class Seen(HTMLParser):
    """What a browser would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "iframe", "object", "embed", "img", "audio", "video", "base", "form"):
            self.loads.append(tag)
        for name, value in attrs:
            if (name.startswith("on") or name in ("src", "href", "srcset", "action")) and not value.startswith("#"):
                self.loads.append(f"{tag} {name}={value}")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_one_run_says_verdict_and_reason_before_the_evidence(name):
    run = recorded(name)
    told = words_of(parsed(report_of(name)).find("body"))
    places = [told.index(run.verdict), told.index(run.name), told.index("Held before"), told.index("Timeline")]
    assert places == sorted(places)
    assert told.index(run.reasons[0].text[:30].replace("<=", "≤")) < told.index("Held before")
    for said in run.cannot_know:
        assert " ".join(timed(run, said).split()) in told


def test_it_loads_nothing_and_runs_nothing():
    text = page(everything())
    seen = Seen()
    seen.feed(text)
    assert seen.loads == []
    assert not re.search(r"url\(|@import|expression\(", text)
    policies = [element.get("content") for element in parsed(everything()).iter("meta") if element.get("http-equiv")]
    assert [(policy or "").partition(";")[0] for policy in policies] == ["default-src 'none'"]


def test_every_link_leads_somewhere_and_no_name_is_given_twice():
    root = parsed(everything())
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = [element.get("href") for element in root.iter("a")]
    assert links and {(link or "").removeprefix("#") for link in links} <= set(ids)


def test_several_runs_have_a_table_of_verdicts_first():
    root = parsed(everything())
    assert words_of(root.find("body/header/h1")) == "3 failed, 1 unknown, 2 void, 2 survived"
    table = root.find("body/main/section")
    assert table is not None and len(table.findall(".//tbody/tr")) == len(NAMES)
    assert "1 came out otherwise than predicted" in words_of(root.find("body/header"))


def test_what_could_not_be_run_is_told():
    problem = Problem("broken.yaml", "TemplateBroken", "the files are <not> the ones")
    root = parsed(report_of("no-names-fixed", problems=(problem,), interrupted=True))
    assert "the files are <not> the ones" in words_of(root)
    assert "1 void, 1 could not be run or read" in words_of(root.find("body/header/h1"))
    assert "interrupted" in words_of(root.find("body/header"))
    assert words_of(parsed(report_of()).find("body/header/h1")) == "Nothing was run"


def test_a_colour_is_never_alone():
    """Every verdict and every link of the chain has a shape and words."""
    root = parsed(everything())
    for element in root.iter():
        classes = (element.get("class") or "").split()
        if "badge" in classes:
            assert element.find("svg") is not None and words_of(element)
        if "link" in classes:
            assert element.find("svg/title") is not None


MATRIX = Matrix(
    "Fault by delay", "fault", "delay", ("10ms", "1s"),
    (MatrixRow("net.delay", (Cell(survived=5, interval=(0.56, 1.0)),
                             Cell(2, 3, 1, 1, (0.1, 0.8), "few", ("failed", "survived"), 1))),
     MatrixRow("net.loss", (Cell(void=2), None))),
)  # fmt: skip
THRESHOLD = Threshold(
    "Where checkout p95 breaks", "delay", "checkout p95 <= 500ms",
    (Point(10, "10 ms", 3, 0, (0.0, 0.56)), Point(500, "500 ms", 3, 1, (0.06, 0.79)), Point(2000, "2 s", 3, 3)),
    250, 500, "it breaks between 250 ms and 500 ms",
)  # fmt: skip
COMPARISON = Comparison(
    "Branches", "5 s under load", "survived", "Mann-Whitney, Holm",
    (Difference("loss", "net.loss", "failed", "checkout p95", "30 ms", "900 ms", 870.0, 500.0, 1200.0, "ms", 0.0004,
                True, "n = 20 and 20"),
     Difference("full", "disk.fill", "survived", "checkout p95", "30 ms", "31 ms", 1.0, -4.0, 6.0, "ms", 0.71, False,
                "n = 20 and 20"),
     Difference("few", "net.drop", "void", "checkout p95", "30 ms", "none", None, None, None, "", None, None, "n = 0")),
)  # fmt: skip


def test_a_campaign_has_its_matrix_threshold_and_differences_before_its_runs():
    lines = tuple(
        Brief(f"id-{n}", "cell", n, 1, verdict, "why <it>", 2.5, "")
        for n, verdict in enumerate(("failed", "survived", "lost", "unfinished"))
    )
    number = CellNumber("cell", "web", "under", "p95", "1.2 s", "1 s to 1.4 s", 3, 30, "few")
    campaign = Campaign(
        "late", "How late?", "failed", (Why("cells_failed", "failed: 1 of 4 cells"),), False, MATRIX, (number,),
        COMPARISON, THRESHOLD, lines, (recorded("no-names-fixed"),), ("one snapshot",), "",
    )  # fmt: skip
    root = parsed(report_of(campaigns=(campaign,)))
    told = words_of(root.find("body"))
    assert words_of(root.find("body/main//h1")) == "late"
    assert "2 of 5 survived" in told and "1 void, 1 unknown" in told and "nothing was learnt" in told
    assert "it breaks between 250 ms and 500 ms" in told and "1 s to 1.4 s" in told
    assert "+870 ms" in told and "+500 to +1200 ms" in told and "p < 0.001" in told and "p = 0.710" in told
    assert "4 runs: 1 failed, 1 survived, 1 lost, 1 unfinished" in told
    assert told.index("cannot be said") < told.index("All 4 runs") < told.index("Held before")
    counted = ET.fromstring(junit(report_of(campaigns=(campaign,))))
    assert {name: counted.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "2", "skipped": "0"
    }  # fmt: skip


def test_branches_stand_beside_their_control_with_what_differs_first():
    control, other = recorded("late-by-turns"), recorded("slow-database-first")
    branches = (Branch("control", True, None, control), Branch("dark", False, True, other))
    whole = dataclasses.replace(other, branches=branches, comparison=COMPARISON, proofs=(), spreads=())
    report = dataclasses.replace(report_of("no-names-fixed"), runs=(whole, recorded("no-names-fixed")))
    root = parsed(report)
    told = words_of(root.find("body"))
    assert "Branches of one instant" in told and "is the control: no fault" in told and "Until the fork" in told
    assert told.index("Branches of one instant") < told.index("+870 ms") < told.index("Until the fork")
    assert len(root.findall(".//section[@class='run']")) == 4
    ids = {element.get("id") for element in root.iter()}
    assert {(link.get("href") or "")[1:] for link in root.iter("a")} <= ids
    names = [case.get("name") for case in ET.fromstring(junit(report)).iter("testcase")]
    assert names == [
        "slow-database-first", "slow-database-first, branch control", "slow-database-first, branch dark",
        "no-names-fixed",
    ]  # fmt: skip
