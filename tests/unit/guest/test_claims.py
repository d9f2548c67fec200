"""What only one fault can have: the second is refused by name, and what is given back can be had again."""

import pytest

from stormcell.guest.tools import claims, common


@pytest.fixture(autouse=True)
def _marks(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "MARKS", str(tmp_path / "marks"))


def test_the_second_is_refused_with_the_name_of_the_first():
    claims.take("full", ["room 8:1"], "the file system on /srv", "filled")
    with pytest.raises(ValueError, match=r"^the file system on /srv is already filled by the fault 'full'$"):
        claims.take("fuller", ["room 8:1"], "the file system on /srv", "filled")


def test_one_has_what_it_has_already():
    for _ in range(2):
        claims.take("full", ["room 8:1", "room 8:2"], "it", "filled")


def test_what_is_given_back_can_be_had_and_what_another_has_stays():
    claims.take("a", ["one"], "it", "had")
    claims.take("b", ["two"], "it", "had")
    with pytest.raises(ValueError, match="'b'"):
        claims.take("a", ["three", "two"], "it", "had")
    claims.drop("a")
    claims.take("c", ["one", "three"], "it", "had")
    with pytest.raises(ValueError, match="'b'"):
        claims.take("c", ["two"], "it", "had")
    claims.drop("never")
