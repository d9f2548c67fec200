import dataclasses
from pathlib import Path

import pytest

from stormcell.machine import argv
from stormcell.machine.host import Qemu
from stormcell.machine.kernel import Kernel
from stormcell.machine.model import Shape
from stormcell.spec.recipe import Recipe
from stormcell.template.digest import Inputs
from stormcell.template.image import ImageSpec

KERNEL = Kernel(Path("/k"), "k" * 64, "6.1.0", "linux-image-6.1.0")
RECIPE = Recipe(name="t", files=[{"path": "/x", "source": "x"}])


def inputs(**changes):
    fields = {
        "recipe": RECIPE,
        "contents": {"/x": b"one"},
        "image": ImageSpec("bookworm", ("curl",), KERNEL, 2**31, None),
        "initrd_sha256": "i" * 64,
        "qemu": Qemu(Path("/usr/bin/qemu"), "7.2", "q" * 64),
        "shape": Shape(),
    }
    return Inputs(**{**fields, **changes})


def test_the_same_inputs_have_the_same_digest():
    assert inputs().digest == inputs().digest


def test_where_qemu_is_installed_does_not_matter():
    assert inputs(qemu=Qemu(Path("/opt/qemu"), "7.2", "q" * 64)).digest == inputs().digest


def test_a_description_does_not_matter():
    assert inputs(recipe=RECIPE.model_copy(update={"description": "other"})).digest == inputs().digest


IMAGE = inputs().image


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": RECIPE.model_copy(update={"setup": "true"})},
        {"recipe": RECIPE.model_copy(update={"warm": "true"})},
        {"contents": {"/x": b"two"}},
        {"image": dataclasses.replace(IMAGE, packages=("curl", "wget"))},
        {"image": dataclasses.replace(IMAGE, suite="trixie")},
        {"image": dataclasses.replace(IMAGE, size=2**32)},
        {"image": dataclasses.replace(IMAGE, inodes=9999)},
        {"image": dataclasses.replace(IMAGE, kernel=dataclasses.replace(KERNEL, digest="l" * 64))},
        {"initrd_sha256": "j" * 64},
        {"qemu": Qemu(Path("/usr/bin/qemu"), "7.2", "r" * 64)},
        {"shape": Shape(memory_mib=1024)},
        {"shape": Shape(vcpus=2)},
        {"shape": Shape(accel="kvm")},
    ],
)
def test_all_that_must_match_changes_the_digest(changes):
    assert inputs(**changes).digest != inputs().digest


def test_another_set_of_devices_changes_the_digest(monkeypatch):
    before = inputs().digest
    monkeypatch.setattr(argv, "CONSOLE_BYTES", 128 * 1024)
    assert inputs().digest != before
