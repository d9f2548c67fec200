"""Marks, options and what the plug-in costs, without a machine."""

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from stormcell.pytest_plugin.settings import Marks

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
PLUGIN = ("-p", "stormcell.pytest_plugin")


@pytest.fixture
def pytester(pytester, monkeypatch):
    """With the plug-in by its module's name, whether or not its entry point is installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.plugins = ["stormcell.pytest_plugin"]
    return pytester


def test_sealed_is_about_an_experiment(pytester):
    pytester.makepyfile("""
        import pytest
        @pytest.mark.stormcell(sealed=True, template="base")
        def test_nothing(): pass
    """)
    done = pytester.runpytest_inprocess(*PLUGIN)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*'sealed' is about an experiment*"])


def test_the_entry_point_names_it():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    module = import_module(points["stormcell"])
    assert callable(module.pytest_addoption)


def test_a_project_that_does_not_use_it_pays_for_no_machinery(tmp_path):
    (tmp_path / "test_other.py").write_text("def test_nothing(): assert True\ndef test_bad(): assert False\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    ours = ('stormcell', 'pydantic', 'ruamel', 'rich')\n"
        "    print('LOADED', sorted(name for name in sys.modules if name.split('.')[0] in ours))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", *PLUGIN, "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout
    (loaded,) = [line for line in done.stdout.splitlines() if "LOADED" in line]
    for heavy in ("pydantic", "ruamel", "rich", "engine", "sandbox", "machine", "template"):
        assert heavy not in loaded
    assert "stormcell.pytest_plugin.settings" in loaded


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("'base'", "it takes keywords alone"),
        ("tempalte='base'", "there is no 'tempalte'; there are template, ttl"),
        ("template=3", "template is a template's name"),
        ("open_ports=8080", "open_ports is a mapping"),
        ("ttl=True", "ttl is seconds"),
        ("verdict='passed'", "verdict is one or several of survived, failed"),
        ("void='pass'", "void is fail or skip"),
        ("fault={'kind': 'net.delay'}, faults={}", "one of 'fault' and 'faults'"),
        ("fault={'kind': 'net.delay'}, faults={'a': {}}", "one of 'fault' and 'faults'"),
    ],
)
def test_a_wrong_mark_is_one_clear_error_before_any_test(pytester, mark, said):
    pytester.makepyfile(
        f"import pytest\ndef test_first(): pass\n@pytest.mark.stormcell({mark})\ndef test_second(): pass\n"
    )
    done = pytester.runpytest_inprocess(*PLUGIN)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: *::test_second: the mark stormcell: {said.replace('[', '[[]')}*"])
    assert "passed" not in done.stdout.str()


def test_a_duration_that_is_none_is_told_before_any_test(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.stormcell(ttl='soon')\ndef test_it(): ...")
    done = pytester.runpytest_inprocess(*PLUGIN)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: the mark stormcell(ttl=...): 'soon' is not a duration*"])


def test_a_fault_that_would_be_forgotten_is_refused(pytester):
    """Nobody could put it in force around a method that unittest calls."""
    pytester.makepyfile(
        """
        import unittest
        import pytest
        class TestIt(unittest.TestCase):
            @pytest.mark.stormcell(fault={"kind": "net.delay", "device": "lo", "delay": "5ms"})
            def test_it(self): ...
        """
    )
    done = pytester.runpytest_inprocess(*PLUGIN)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(
        ["ERROR: *TestIt::test_it: the mark stormcell: faults and experiments are for functions*"]
    )


def test_the_nearest_mark_counts_word_by_word(pytester):
    items = pytester.getitems(
        """
        import pytest
        pytestmark = pytest.mark.stormcell(template="a", ttl="1m", setup="one")
        @pytest.mark.stormcell(template="b", open_ports={"web": 80})
        class TestIt:
            @pytest.mark.stormcell(template="c.yaml", verdict=("failed", "void"))
            def test_it(self): ...
            @pytest.mark.stormcell(setup=["two", "three"])
            def test_other(self): ...
        """
    )
    one, other = (Marks.of(item) for item in items)
    assert (one.template, one.ttl(), one.ports, one.setup) == ("c.yaml", 60.0, {"web": 80}, ("one",))
    assert one.verdicts == ("failed", "void")
    assert (other.template, other.setup, other.verdicts) == ("b", ("two", "three"), ())


def test_the_fixtures_are_there_under_both_names(pytester):
    done = pytester.runpytest_inprocess(*PLUGIN, "--fixtures")
    names = ("template", "sandbox", "warmed", "forked", "outcome")
    done.stdout.fnmatch_lines([*(f"stormcell_{name}*" for name in names), *(f"{name}*" for name in names)])


def test_short_names_can_be_turned_off(pytester):
    pytester.makeini("[pytest]\nstormcell_short_names = false\n")
    pytester.makepyfile("def test_it(sandbox): ...")
    done = pytester.runpytest_inprocess(*PLUGIN)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*fixture 'sandbox' not found*", "*stormcell_sandbox*"])


def test_a_projects_own_fixtures_of_those_names_are_its_own(pytester):
    pytester.makeconftest(
        """
        import pytest
        @pytest.fixture
        def sandbox(): return "a sandpit"
        @pytest.fixture
        def template(): return "a page"
        """
    )
    pytester.makepyfile("def test_it(sandbox, template): assert (sandbox, template) == ('a sandpit', 'a page')")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_a_warmed_that_is_no_machine_is_told(pytester):
    pytester.makepyfile(
        """
        import pytest
        @pytest.fixture
        def warmed(): return 37
        def test_it(forked): ...
        """
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*the fixture 'warmed' gives a int, and `forked` needs a Sandbox to fork*"])


def test_a_fault_needs_a_machine(pytester):
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.stormcell(fault={"kind": "net.delay", "device": "lo", "delay": "5ms"})
        def test_it(): ...
        """
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the mark's fault needs one machine, and the test has none*"])


@pytest.mark.parametrize(
    ("ini", "said"),
    [
        ("stormcell_void = ignore", "*stormcell_void is fail or skip, not 'ignore'*"),
        ("stormcell_ready = 99", "*stormcell_ready is 0 to 16, not 99*"),
        ("stormcell_wait = soon", "*stormcell_wait is a number of seconds*"),
    ],
)
def test_wrong_settings(pytester, ini, said):
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile("def test_it(): ...")
    done = pytester.runpytest_inprocess(*PLUGIN)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([said])
