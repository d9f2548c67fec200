"""What a host that cannot keep what happens makes of a run."""

from types import SimpleNamespace

import pytest

from stormcell.engine.api import outcome_lost
from stormcell.spec.errors import MachineDied, NoSpace, SpecError


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
