import itertools

import pytest

from stormcell.spec.verdict import PRECEDENCE, exit_code


@pytest.mark.parametrize(
    ("codes", "one"),
    [([0], 0), ([0, 1], 1), ([3, 0], 3), ([4, 3, 0], 4), ([1, 4], 1), ([2, 1], 2), ([0, 0], 0), ([], 2)],
)
def test_several_runs_have_one_exit_code(codes, one):
    assert exit_code(codes) == one


def test_the_order_of_runs_does_not_matter():
    for codes in itertools.permutations(PRECEDENCE):
        assert exit_code(codes) == 2
