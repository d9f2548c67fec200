"""`stormcell explore` when its folder takes nothing any more: what was found is told all the same.

Only the runs are left out, which need a machine; the disk is as good as full, since a write to /dev/full says so.
"""

import itertools
import json
import shlex

import pytest

from stormcell.cli.main import main
from stormcell.engine.explore import run
from stormcell.engine.explore.coverage import Tried
from stormcell.engine.explore.outcome import Failing
from stormcell.machine.sealed.layout import Layout
from stormcell.spec.errors import NoSpace
from stormcell.spec.verdict import Reason, Result, Verdict
from stormcell.template import sealed

FILE = """\
name: late
template: base
steady_state:
  - {name: echo, command: {run: "true"}, expect: {exit_code: 0}}
fault: {kind: net.delay, device: lo, delay: 10ms}
explore:
  vary:
    fault.delay: [1ms, 20ms]
"""


class Explorer(run.Explorer):
    """Finds what it is told to, and meets a full disk where it is told to."""

    verdict = Verdict.FAILED
    full_at_the_end = True

    async def _all(self, found, *_):
        path = found.folder
        first, case = itertools.islice(self._space.cases(0), 2)
        self._tried = [Tried(1, first, Verdict.SURVIVED, "", 1.0, 1.0), Tried(2, case, self.verdict, "", 1.0, 1.0)]
        if self.verdict is Verdict.FAILED:
            reasons = (Reason(code="not_held", text="echo did not hold under the fault"),)
            result = Result(experiment="late", verdict=Verdict.FAILED, reasons=reasons)
            self._failing = [Failing(case, self._space.values(case), result, path / "00002", 1.0)]
        self._known_of(found)
        (path / ".exploration.json.new").symlink_to("/dev/full")
        if not self.full_at_the_end:
            raise NoSpace("cannot be written (No space left on device)", where="while it was shrunk")


@pytest.fixture
def explored(tmp_path, monkeypatch, capsys):
    async def built(*_, **__):
        return sealed.SealedTemplate("base", "0" * 64, "0" * 64, tmp_path, Layout(256 << 20, 512 << 20), (), {}, {})

    def call(*more, file=FILE, **settings):
        (tmp_path / "late.yaml").write_text(file)
        monkeypatch.setattr(sealed, "build_sealed", built)
        monkeypatch.setattr(run, "Explorer", type("Told", (Explorer,), settings))
        argv = ["explore", "--into", str(tmp_path / "into"), *more, str(tmp_path / "late.yaml")]
        monkeypatch.setattr("sys.argv", ["stormcell", *argv])
        with pytest.raises(SystemExit) as ended:
            main(argv)
        return ended.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("end", [True, False])
def test_what_broke_is_told_whenever_the_disk_is_full(explored, tmp_path, end):
    code, told, said = explored(full_at_the_end=end)
    (folder,) = (tmp_path / "into").iterdir()
    assert code == 1
    assert "cannot be written (No space left on device)" in said
    assert (f"{folder}/exploration.json" in said) is end
    lines = told.splitlines()
    assert lines[0] == "broken  late" and "echo did not hold" in lines[1]
    place = next(number for number, line in enumerate(lines) if line.startswith("replay it with"))
    assert shlex.split(lines[place + 1]) == ["stormcell", "run", "--replay", f"{folder}/00002"]
    assert list(folder.iterdir()) == []


def test_a_program_gets_one_document_with_the_error_in_it(explored):
    code, told, said = explored("--json")
    found = json.loads(told)
    assert (code, found["verdict"]) == (1, "failed")
    assert "No space left on device" in found["ended_by"] and "No space left on device" in said


@pytest.mark.parametrize("end", [True, False])
def test_where_nothing_broke_the_table_is_told_and_the_exit_code_is_the_errors(explored, end):
    code, told, said = explored(verdict=Verdict.SURVIVED, full_at_the_end=end)
    assert code == NoSpace.exit_code
    assert "No space left on device" in said
    assert told.startswith("unknown  late") and "2 survived" in told and "fault.delay" in told


def test_where_nothing_was_tried_the_error_stands_alone(explored):
    code, told, said = explored(_all=_not_begun)
    assert (code, told) == (NoSpace.exit_code, "")
    assert "No space left on device" in said


async def _not_begun(*_):
    raise NoSpace("cannot be written (No space left on device)")


@pytest.mark.parametrize(("runs", "shown"), [("1", 1), ("3", 3), ("50", 5)])
def test_a_dry_run_shows_no_more_cases_than_there_are_to_be(tmp_path, runs, shown, capsys):
    (tmp_path / "late.yaml").write_text(FILE)
    assert main(["explore", "--dry-run", "--runs", runs, str(tmp_path / "late.yaml")]) is None
    assert capsys.readouterr().out.count("  seed ") == shown
    main(["explore", "--dry-run", "--json", "--runs", runs, str(tmp_path / "late.yaml")])
    assert len(json.loads(capsys.readouterr().out)["first_cases"]) == shown
