import os

import pytest

from stormcell.machine.accel import VARIABLE, forced, refused_at_once
from stormcell.spec.errors import SpecError


@pytest.mark.parametrize("word", ["kvm", "tcg"])
def test_the_user_can_force_either(monkeypatch, word):
    monkeypatch.setenv(VARIABLE, word)
    choice = forced()
    assert choice is not None and choice.accel == word and VARIABLE in choice.reason


def test_nothing_is_forced_by_default(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert forced() is None


def test_a_wrong_word_is_an_error(monkeypatch):
    monkeypatch.setenv(VARIABLE, "xen")
    with pytest.raises(SpecError, match="xen"):
        forced()


def test_no_device_no_kvm_at_once(tmp_path):
    choice = refused_at_once(tmp_path / "kvm")
    assert choice is not None and choice.accel == "tcg" and "is not there" in choice.reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_device_that_may_not_be_opened(tmp_path):
    device = tmp_path / "kvm"
    device.touch(mode=0)
    choice = refused_at_once(device)
    assert choice is not None and choice.accel == "tcg" and "may not open" in choice.reason and choice.remedy


def test_a_device_that_opens_proves_nothing(tmp_path):
    (tmp_path / "kvm").touch()
    assert refused_at_once(tmp_path / "kvm") is None
