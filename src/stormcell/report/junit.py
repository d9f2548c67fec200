"""The model as JUnit XML, as continuous integration reads it.

One suite for each experiment or campaign, one case in it for each run. `failed` is a failure, `unknown` an
error (the outcome was lost, so it is no pass and no finding), `void` is skipped, with the reason: nothing was learnt.
A sealed run's time is the host's, and its guest time a property. A run that could not be made is an error in a suite of
its own. The exit code of the command is the stricter judge.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator

from stormcell.judge.wording import GUEST_TIME
from stormcell.report.model import Campaign, Problem, Report, Run
from stormcell.report.sealedpage import timed
from stormcell.spec.text import printable

ELEMENT = {"failed": "failure", "unknown": "error", "lost": "error", "unfinished": "error", "void": "skipped"}


def junit(report: Report) -> str:
    """A whole XML file."""
    root = ET.Element("testsuites")
    suites = [_suite(name, runs) for name, runs in _by_experiment(report.runs).items()]
    suites += [_campaign(campaign) for campaign in report.campaigns]
    if report.problems:
        suites.append(_problems(report.problems))
    root.extend(suites)
    _count(root, name=f"stormcell: {report.title}", time=sum(float(suite.get("time") or 0) for suite in suites))
    for element in root.iter():
        element.text = printable(element.text or "") or None
        element.attrib = {name: printable(value) for name, value in element.attrib.items()}
    ET.indent(root)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _by_experiment(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.source or run.name, []).append(run)
    return found


def _suite(name: str, runs: list[Run]) -> ET.Element:
    suite = ET.Element("testsuite")
    for number, run in enumerate(runs, 1):
        called = f"{run.name} ({number})" if len(runs) > 1 else run.name
        suite.append(_case(run, called))
        suite.extend(_case(branch.run, f"{called}, branch {branch.name}") for branch in run.branches)
    _count(suite, name=name, time=sum(_took(run) for run in runs), timestamp=runs[0].began.removesuffix("Z"))
    _property(suite, runs[0])
    return suite


def _case(run: Run, name: str) -> ET.Element:
    case = ET.Element("testcase", name=name, classname=_class(run), time=f"{_took(run):.3f}")
    if element := ELEMENT.get(run.verdict):
        first = run.reasons[0] if run.reasons else None
        told = ET.SubElement(case, element, message=timed(run, first.text) if first else run.verdict)
        if element != "skipped":
            told.set("type", first.code if first else run.verdict)
        told.text = "\n".join(f"{timed(run, why.text)} ({why.code})" for why in run.reasons)
    ET.SubElement(case, "system-out").text = _told(run)
    return case


def _took(run: Run) -> float:
    """Seconds of this machine, as everywhere in JUnit: a sealed run's own are guest time."""
    return run.seconds if run.sealed is None else run.sealed.host_seconds or 0.0


def _class(run: Run) -> str:
    return ", ".join(dict.fromkeys(proof.kind for proof in run.proofs)) or "stormcell"


def _told(run: Run) -> str:
    lines = [run.question] if run.question else []
    if run.predicted:
        lines.append(f"predicted: {run.predicted}" + (" (surprise)" if run.surprise else ""))
    for proof in run.proofs:
        acted = "?" if proof.acted is None else proof.acted
        lines.append(f"receipt of {proof.kind}: in force {proof.in_force}, {acted} {proof.counts}, clean {proof.clean}")
    for item in run.measured:
        wanted = f", wanted {item.wanted}" if item.wanted else ""
        lines.append(f"{item.probe} {item.phase}: {item.metric} {timed(run, item.text)}{wanted} (n = {item.samples})")
    lines += [f"cannot know: {timed(run, said)}" for said in run.cannot_know]
    if run.sealed:
        lines += [f"* {GUEST_TIME}", f"repeat: {run.sealed.replay}"]
    return "\n".join([*lines, f"folder: {run.folder}"] if run.folder else lines)


def _campaign(campaign: Campaign) -> ET.Element:
    suite = ET.Element("testsuite")
    for line in campaign.lines:
        name = f"{line.cell} (seed {line.seed}, repeat {line.repeat})"
        case = ET.SubElement(suite, "testcase", name=name, classname=line.cell, time=f"{line.seconds or 0:.3f}")
        if element := ELEMENT.get(line.verdict):
            told = ET.SubElement(case, element, message=line.why or line.verdict)
            if element != "skipped":
                told.set("type", line.verdict)
        if line.folder:
            ET.SubElement(case, "system-out").text = f"folder: {line.folder}"
    _count(suite, name=campaign.name, time=sum(line.seconds or 0 for line in campaign.lines))
    properties = ET.Element("properties")
    for number, why in enumerate(campaign.reasons, 1):
        ET.SubElement(properties, "property", name=f"reason {number} ({why.code})", value=why.text)
    suite.insert(0, properties)
    return suite


def _problems(problems: tuple[Problem, ...]) -> ET.Element:
    suite = ET.Element("testsuite")
    for problem in problems:
        case = ET.SubElement(suite, "testcase", name=problem.what or problem.error, classname="stormcell", time="0")
        ET.SubElement(case, "error", message=problem.text.partition("\n")[0], type=problem.error).text = problem.text
    _count(suite, name="could not be run or read", time=0.0)
    return suite


def _count(element: ET.Element, *, name: str, time: float, timestamp: str = "") -> None:
    element.set("name", name)
    element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for counted, tagged in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(counted, str(sum(1 for _ in element.iter(tagged))))
    element.set("time", f"{time:.3f}")
    if timestamp:
        element.set("timestamp", timestamp)


def _sealed(run: Run) -> Iterator[tuple[str, str]]:
    if (found := run.sealed) is None:
        return
    yield "sealed", "true"
    yield "snapshot", found.snapshot
    yield "events sha256", found.events_sha256
    if found.guest_seconds is not None and found.host_seconds is not None:
        yield "guest seconds", f"{found.guest_seconds:.3f}"
        yield "host seconds", f"{found.host_seconds:.3f}"
        yield "guest to host", f"{found.ratio:.3f}"


def _property(suite: ET.Element, run: Run) -> None:
    properties = ET.Element("properties")
    for name, value in (*run.facts, *_sealed(run)):
        ET.SubElement(properties, "property", name=name, value=value)
    suite.insert(0, properties)
