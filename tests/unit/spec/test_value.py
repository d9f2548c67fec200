import pytest

from stormcell.spec.value import nearest


@pytest.mark.parametrize(
    ("known", "said"),
    [((), "there are none"), (("settle", "hold"), "did you mean 'settle'?"), (("b", "a"), "known: a, b")],
)
def test_a_wrong_name_is_answered_with_what_there_is(known, said):
    assert nearest("setle", known) == said
