"""What a host that cannot keep what happens makes of a run."""

import asyncio
from types import SimpleNamespace

import pytest

from stormcell.engine.api import outcome_lost, performed
from stormcell.engine.folder import RunFolder
from stormcell.spec.errors import MachineDied, NoSpace, SpecError
from stormcell.spec.verdict import Reason, Result, Verdict


@pytest.mark.parametrize(
    ("refused", "error", "code"),
    [
        (False, NoSpace("the disk is full"), 4),
        (True, NoSpace("the disk is full"), 2),
        (False, SpecError("there is no such step"), 2),
        (True, MachineDied("QEMU ended at once"), 3),
    ],
)
def test_a_full_disk_in_the_middle_of_a_run_loses_its_outcome_and_before_it_nothing(refused, error, code):
    with pytest.raises(type(error)) as caught, outcome_lost(SimpleNamespace(refused=refused)):
        raise error
    assert caught.value.exit_code == code


@pytest.mark.parametrize("refused", [True, False])
def test_of_a_run_that_was_refused_nothing_is_kept_and_any_other_is_concluded(tmp_path, refused):
    folder = RunFolder.create(tmp_path, "x")
    concluded = []

    async def work():
        raise NoSpace("the disk is full")

    def conclude():
        concluded.append(folder.path)
        return Result(experiment="x", verdict=Verdict.UNKNOWN, reasons=(Reason(code="host_error", text="it is full"),))

    with pytest.raises(NoSpace):
        asyncio.run(performed(SimpleNamespace(refused=refused), folder, work(), conclude))
    assert folder.path.exists() is not refused
    assert concluded == ([] if refused else [folder.path])
