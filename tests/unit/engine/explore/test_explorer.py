"""What an exploration knows when its runs, which need a machine, are answered at once."""

import asyncio
from types import SimpleNamespace

import pytest

from stormcell.engine.explore.coverage import coverage
from stormcell.engine.explore.outcome import Explored, Failing, Quiet
from stormcell.engine.explore.plans import variant
from stormcell.engine.explore.run import Explorer
from stormcell.engine.explore.space import Case, Space
from stormcell.engine.load import load_mapping
from stormcell.machine.sealed.layout import Layout
from stormcell.spec.errors import NoSpace
from stormcell.spec.exploration import Exploration
from stormcell.spec.home import Home
from stormcell.spec.quantity import quantity
from stormcell.spec.verdict import Reason, Result, Verdict
from stormcell.template.sealed import SealedTemplate

PROBE = {"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}
FAULT = {"kind": "net.delay", "device": "lo", "delay": "1s"}
LOADED = load_mapping({"name": "x", "template": "base", "steady_state": [PROBE], "fault": FAULT})
VARY = {"fault.delay": {"from": "10ms", "to": "1s"}, "fault.jitter": ["0ms", "100ms"]}
SPACE = Space.of(Exploration.model_validate({"vary": VARY}), ["fault"], [])
BROKEN = Result(experiment="x", verdict=Verdict.FAILED, reasons=(Reason(code="not_held", text="a did not hold"),))
HELD = Result(experiment="x", verdict=Verdict.SURVIVED, reasons=())


class Answered(Explorer):
    """Every case with all of the jitter breaks it."""

    async def _carry_out(self, instant, case):
        variant(self._loaded, self._space, case)
        failed = self._space.values(case)["fault.jitter"] == "100ms" and case.faults
        outcome = SimpleNamespace(
            sealed=SimpleNamespace(guest_seconds=1.0, host_seconds=1.0),
            result=BROKEN if failed else HELD,
            verdict=Verdict.FAILED if failed else Verdict.SURVIVED,
        )
        failing = Failing(case, self._space.values(case), BROKEN, self._folder.path, 1.0) if failed else None
        return outcome, failing


@pytest.fixture
def explorer(tmp_path):
    template = SealedTemplate("base", "0" * 64, "0" * 64, tmp_path, Layout(256 << 20, 512 << 20), (), {}, {})
    return Answered(LOADED, template, SPACE, Home(tmp_path, tmp_path), tmp_path / "runs", Quiet(), 0)


def found_by(explorer):
    return Explored("x", explorer._folder.path, coverage(SPACE, ()), HELD)


def test_a_case_that_broke_is_known_also_when_its_line_cannot_be_written(explorer):
    (explorer._folder.path / "tried.jsonl").symlink_to("/dev/full")
    case = Case(0, places=(("fault.delay", 1.0), ("fault.jitter", 0.75)), faults=("fault",))
    with pytest.raises(NoSpace):
        asyncio.run(explorer._try(None, case))
    found = found_by(explorer)
    explorer._known_of(found)
    assert found.first is not None and found.first.case == case


def test_a_smaller_case_that_is_no_experiment_is_passed_over(explorer):
    """A jitter must not be larger than its delay; the rest is shrunk all the same."""
    case = Case(0, places=(("fault.delay", 1.0), ("fault.jitter", 0.75)), faults=("fault",))
    found = found_by(explorer)
    found.first = found.shortest = Failing(case, SPACE.values(case), BROKEN, explorer._folder.path, 1.0)
    asyncio.run(explorer._shrink(None, found, 60))
    assert found.shortest.values["fault.jitter"] == "100ms"
    assert quantity("100ms").value <= quantity(found.shortest.values["fault.delay"]).value < quantity("150ms").value
    assert found.steps and len(found.steps) < 60
