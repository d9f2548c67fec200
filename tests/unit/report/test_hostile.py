"""What guests and users wrote stays text: escaped, bounded, well-formed."""

import dataclasses
import json
import shutil
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell.report.jsonfile import json_text, read_report
from stormcell.report.junit import junit
from stormcell.report.load import load_report
from stormcell.report.markup import escaped, raw_style, tag
from stormcell.report.model import Problem, Report
from stormcell.report.page import page
from stormcell.report.scale import Linear, Log, log_for
from stormcell.report.words import lines, words
from stormcell.spec.text import printable
from tests.unit.report.recorded import DATA, NAMES, campaign_folder, everything, recorded, with_events

NASTY = [
    "</script><script>alert(1)</script>", "</title></style><img src=x onerror=alert(1)>", "]]>", "<!--", "&amp;&lt;",
    "\x00\x07\x1b[2J\x1b]0;title\x07", "\u202egnp.exe", "\ud800\udfff", "\ufffe\uffff", "a" * 5_000, "\"' onload='x",
    "\r\n\r\n", "{{7*7}}", "javascript:alert(1)", "=cmd|' /C calc'!A0", "​\u2028\u2029",
]  # fmt: skip
RICH = recorded("power-cut-fixed")
anything = st.sampled_from(NASTY) | st.text(max_size=60) | st.text(st.characters(), max_size=30)


def replaced(value, text):
    """The model with every text in it replaced, but for a link's state: that is one of four words of ours."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(replaced(item, text) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: replaced(getattr(value, field.name), text)
            for field in dataclasses.fields(value)
            if field.name != "state"
        }
        return dataclasses.replace(value, **fields)
    return value


@settings(max_examples=30)
@given(anything)
def test_any_text_anywhere_leaves_the_page_and_the_xml_well_formed(text):
    report = replaced(Report("", "", "", (RICH,), (Problem("", "", ""),)), text)
    root = ET.fromstring(page(report).partition("\n")[2])
    assert not list(root.iter("script")) and not list(root.iter("img"))
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    ET.fromstring(junit(report))


@given(anything)
def test_an_escaped_text_reads_back_as_its_printable_form(text):
    element = ET.fromstring(tag("p", text, title=text))
    expected = printable(text)
    assert (element.text or "") == expected
    assert element.get("title") == expected.replace("\n", " ").replace("\t", " ")
    assert "<" not in escaped(text)


@given(anything, st.integers(1, 50))
def test_words_are_bounded_and_printable(text, limit):
    for found in (words(text, limit), lines(text, limit)):
        assert len(found) <= 6 * limit + 40  # a character that is named takes six
        assert all(c.isprintable() or c in "\n\t" for c in found)


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_a_guest_that_writes_anything_as_its_outcome_is_shown_as_text(nasty):
    def change(event):
        for sample in event.get("samples", ()):
            if sample[1] is None:
                sample[2] = nasty
        for key in ("text", "detail"):
            if key in event:
                event[key] = nasty
        return event

    run = with_events("slow-database-first", change)
    report = Report("t", "2026-11-29T12:00:00Z", "1", (run,))
    text = page(report)
    assert len(text) < 200_000
    root = ET.fromstring(text.partition("\n")[2])
    assert not list(root.iter("script"))
    ET.fromstring(junit(report))
    assert read_report(json_text(report)) == report


weird: st.SearchStrategy[Any] = st.sampled_from(
    [1e308, -1e308, 1e-308, 0, -5, True, None, "x", [], {}, 2**70]
) | st.floats(allow_nan=False)


@settings(max_examples=40)
@given(st.data())
def test_any_number_in_any_event_still_makes_a_page(data):
    keys = ("h", "t", "at", "began", "took_s", "seconds", "began_s", "attempts", "level", "wall", "since", "until", "n")
    name = data.draw(st.sampled_from(NAMES))
    chosen = data.draw(st.lists(st.tuples(st.integers(0, 60), st.sampled_from(keys), weird), min_size=1, max_size=6))
    count = 0

    def change(event):
        nonlocal count
        for place, key, value in chosen:
            if place == count:
                event[key] = value
        count += 1
        return event

    run = with_events(name, change)
    text = page(Report("t", "2026-11-29T12:00:00Z", "1", (run,)))
    ET.fromstring(text.partition("\n")[2])
    assert "nan" not in text.split("<body", 1)[1].replace("name", "") or "nan" in run.name


def test_the_json_reads_back_as_the_same_model():
    report = everything()
    text = json_text(report)
    assert read_report(text) == report
    assert json.loads(text)["schema"] == 1


def test_a_style_sheet_cannot_open_a_tag():
    with pytest.raises(ValueError):
        raw_style("p { } </style>")


positive = st.floats(min_value=1e-12, max_value=1e12)


@given(st.lists(st.floats(min_value=0, max_value=1e308), max_size=8), st.integers(2, 12))
def test_a_logarithmic_scale_keeps_to_its_paper(values, most):
    scale = log_for(values, 10, 100)
    assert all(10 <= scale.at(value) <= 100 for value in values)
    assert isinstance(scale, Log) and 1 <= len(scale.ticks(most)) <= most


@given(positive, positive, st.integers(2, 12))
def test_a_linear_scale_has_round_ticks_in_order(low, width, most):
    scale = Linear(low, low + width, 0, 1)
    ticks = scale.ticks(most)
    assert ticks == sorted(ticks) and len(ticks) <= most + 2
    assert all(0 <= scale.at(tick) <= 1 for tick in ticks)


def spoilt(raw: bytes, data: Any) -> bytes:
    """Bytes changed, cut off or replaced, as a failing disk or a careless hand would."""
    at = data.draw(st.integers(0, max(0, len(raw) - 1)))
    how = data.draw(st.sampled_from(["byte", "digits", "cut", "swap"]))
    if how == "cut":
        return raw[:at]
    if how == "swap":
        return raw.replace(b"0", data.draw(st.sampled_from([b"null", b"-1", b"[]", b'""', b"true", b"NaN"])), 3)
    return raw[:at] + (b"1e999" if how == "digits" else data.draw(st.binary(max_size=3))) + raw[at + 1 :]


def shown_or_told(folder: Path) -> None:
    """A page, or one clear error on it; all three files can be read."""
    report = load_report([(folder, "")])
    assert len(report.runs) + len(report.campaigns) + len(report.problems) == 1
    ET.fromstring(page(report).partition("\n")[2])
    ET.fromstring(junit(report))
    assert read_report(json_text(report)) == report


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.data())
def test_a_damaged_run_is_a_page_or_one_clear_error(name, data):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        shutil.copytree(DATA / name, folder)
        for _ in range(data.draw(st.integers(1, 3))):
            path = folder / data.draw(st.sampled_from(sorted(file.name for file in folder.iterdir())))
            path.write_bytes(spoilt(path.read_bytes(), data))
        shown_or_told(folder)


@settings(max_examples=40)
@given(st.sampled_from(["late-web", "how-late"]), st.data())
def test_a_damaged_campaign_is_a_page_or_one_clear_error(name, data):
    with tempfile.TemporaryDirectory() as place:
        folder = campaign_folder(Path(place) / name, name)
        path = folder / data.draw(st.sampled_from(["result.json", "ledger.jsonl"]))
        path.write_bytes(spoilt(path.read_bytes(), data))
        shown_or_told(folder)
