"""The pytest plug-in: registers what there is, and imports the machinery when a test first asks for a machine.

pytest loads this module in every run of a project that has Stormcell installed, so nothing heavy may be imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

from stormcell.pytest_plugin.fixtures import (
    stormcell_forked,
    stormcell_outcome,
    stormcell_sandbox,
    stormcell_template,
    stormcell_warmed,
)
from stormcell.pytest_plugin.settings import MARK, RUNS, VOID, Marks, check, patience, ready_ahead, short_names
from stormcell.spec.errors import NotSurvived
from stormcell.spec.witness import hearing

__all__ = [
    "stormcell_forked",
    "stormcell_outcome",
    "stormcell_sandbox",
    "stormcell_template",
    "stormcell_warmed",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Each as an option, and as a setting in the ini file."""
    group = parser.getgroup("stormcell", "chaos in microVMs")
    what = "the template of tests that name none: a name, or a recipe's file"
    group.addoption("--stormcell-template", metavar="NAME|RECIPE", help=f"{what} (default: base)")
    parser.addini("stormcell_template", f"{what}, relative to the root folder", default="base")
    what = "what becomes of a test that is void, so that nothing was learnt"
    group.addoption("--stormcell-void", choices=VOID, help=f"{what} (default: fail)")
    parser.addini("stormcell_void", f"{what}: {' or '.join(VOID)}", default="fail")
    what = "seconds to wait until the host has room for another machine"
    group.addoption("--stormcell-wait", type=float, metavar="SECONDS", help=f"{what} (default: 300)")
    parser.addini("stormcell_wait", what, default="300")
    what = "machines that are restored, and processes that wait for forks, before a test asks"
    group.addoption("--stormcell-ready", type=int, metavar="N", help=f"{what} (default: 0)")
    parser.addini("stormcell_ready", what, default="0")
    what = "also offer the fixtures as template, sandbox, warmed, forked, outcome"
    parser.addini("stormcell_short_names", what, type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    """The mark, and the fixtures' short names."""
    config.addinivalue_line("markers", MARK)
    if config.getini("stormcell_void") not in VOID:
        raise pytest.UsageError(f"stormcell_void is {' or '.join(VOID)}, not '{config.getini('stormcell_void')}'")
    patience(config)
    ready_ahead(config)
    if short_names(config):
        from stormcell.pytest_plugin import short

        config.pluginmanager.register(short, "stormcell-short-names")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A wrong mark is told before anything starts. Raises UsageError."""
    for item in items:
        check(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hear of every run that the test makes."""

    def heard(result: Any, folder: Any) -> None:
        item.stash.setdefault(RUNS, []).append((result, folder))
        item.user_properties.append((f"stormcell {result.verdict}", str(folder)))

    with hearing(heard):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A void run is a failure, or a skip where that was asked for."""
    try:
        return (yield)
    except NotSurvived as error:
        caught = error
    if str(caught.result.verdict) == "void" and Marks.of(item).void(item.config) == "skip":
        raise pytest.skip.Exception(f"{caught.what}; {caught.folder}", _use_item_location=True)
    if caught.of_mark:
        pytest.fail(str(caught), pytrace=False)
    raise caught


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """What the mark asks for: an experiment before the test, faults around it."""
    marks = Marks.of(pyfuncitem)
    if marks.experiment is None and not marks.faults:
        return (yield)
    from stormcell.pytest_plugin.work import as_marked

    with as_marked(pyfuncitem):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """To a failure, what the runs and the machines say."""
    report = yield
    if report.failed and (RUNS in item.stash or "stormcell.pytest_plugin.machines" in sys.modules):
        from stormcell.pytest_plugin.telling import sections

        report.sections += sections(item)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of xdist ended, perhaps without the teardown of its fixtures."""
    if error is not None:
        from stormcell.pytest_plugin.leftovers import collect

        collect(node.config)
