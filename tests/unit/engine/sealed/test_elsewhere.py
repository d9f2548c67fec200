"""What is said of a run whose machine cannot be made here."""

from pathlib import Path

import pytest

from stormcell.engine.sealed.bundle import Sealed
from stormcell.engine.sealed.elsewhere import not_the_same

INPUTS = {"kernel": "aa", "image": "bb", "qemu": {"version": "7.2", "sha256": "cc"}, "recipe": {"name": "x"}}
PACKAGES = ("bash=5.2", "curl=7.88")
OTHER_QEMU = {"version": "8.0", "sha256": "dd"}
OTHER_BUILD = {"version": "7.2", "sha256": "dd"}


def told(changed, packages=PACKAGES):
    recorded = Sealed(seed=1, template="t", snapshot="ss", inputs=INPUTS, packages=PACKAGES)
    return not_the_same(Path("run"), recorded, {**INPUTS, **changed}, "rr", packages)


@pytest.mark.parametrize(
    ("changed", "packages", "what", "detail"),
    [
        ({"image": "b2"}, ("bash=5.3", "curl=7.88"), "packages",
         ["image: recorded bb, here b2", "bash: 5.2, here 5.3"]),
        ({"image": "b2"}, ("bash=5.2",), "packages", ["image: recorded bb, here b2", "curl: 7.88, here absent"]),
        ({"image": "b2"}, PACKAGES, "disk image of the same packages", ["image: recorded bb, here b2"]),
        ({"qemu": OTHER_QEMU}, PACKAGES, "QEMU", ["qemu: recorded 7.2 (cc), here 8.0 (dd)"]),
        ({"qemu": OTHER_BUILD}, PACKAGES, "QEMU", ["qemu: recorded 7.2 (cc), here 7.2 (dd)"]),
        ({"kernel": "a2", "qemu": None}, PACKAGES, "guest kernel and another QEMU",
         ["kernel: recorded aa, here a2", "qemu: recorded 7.2 (cc), here None"]),
        ({"recipe": {"name": "y"}}, PACKAGES, "recipe", []),
        ({}, PACKAGES, "snapshot of equal inputs", ["snapshot: recorded ss, here rr"]),
        ({"image": "b2"}, ("bash", "curl=7.88"), "packages", ["image: recorded bb, here b2", "bash: 5.2, here "]),
    ],
)  # fmt: skip
def test_what_differs_is_named(changed, packages, what, detail):
    error = told(changed, packages)
    assert error.what == f"the run cannot be repeated here: another {what}"
    assert error.detail.splitlines() == detail
    assert error.where == "run" and error.rule and error.remedy


def test_nobody_is_sent_for_versions_that_are_there():
    drawn = told({"image": "b2"})
    assert "at random" in drawn.rule and "versions" not in drawn.remedy
    assert "versions" in told({"image": "b2", "kernel": "a2"}).remedy
