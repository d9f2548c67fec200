"""When the scheduler is disturbed; that it is, and is left as it was, is seen in a guest (tests/guest)."""

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from stormcell.guest.tools.schedule.noise import LONGEST_S, SHORTEST_S, main, moments


@given(st.integers(), st.floats(1e-4, 10))
def test_one_seed_gives_the_same_moments_in_order(seed, gap):
    found = list(islice(moments(seed, gap), 50))
    assert found == list(islice(moments(seed, gap), 50))
    assert [moment.number for moment in found] == list(range(50))
    assert all(one.at < other.at for one, other in pairwise(found))
    assert all(SHORTEST_S <= moment.lasts <= LONGEST_S and 0 <= moment.pick < 1 for moment in found)


def test_they_are_as_far_apart_as_asked_and_of_every_length():
    found = list(islice(moments(1, 0.02), 2000))
    assert 0.018 < found[-1].at / len(found) < 0.022
    tenths = [sum(low <= moment.lasts < 10 * low for moment in found) for low in (1e-4, 1e-3)]
    assert all(900 < count < 1100 for count in tenths)
    assert 900 < sum(moment.demotes for moment in found) < 1100


def test_two_seeds_give_other_moments():
    assert next(moments(1, 0.02)) != next(moments(2, 0.02))


def test_a_call_that_cannot_be_meant_is_told_its_form(capsys):
    for argv in ([], ["1", "soon", "2"], ["1", "0", "2"]):
        assert main(argv) == 2
        assert "SEED GAP_SECONDS SECONDS" in capsys.readouterr().err
