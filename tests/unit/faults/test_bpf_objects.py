"""The compiled eBPF objects are those of the sources beside them, and the tables on both sides agree."""

import json
import re

import pytest

from stormcell.guest.tools.bpf import calls
from stormcell.guest.tools.bpf import config as bpf_config
from stormcell.machine.guestfile import guest_sources
from tests.unit.faults import bpf_objects
from tests.unit.faults.bpf_objects import FOLDER, MANIFEST

WRITTEN = json.loads(MANIFEST.read_text())
SOURCES = sorted(FOLDER.glob("*.bpf.c"))
TOOLS = bpf_objects.compiler()


def test_the_manifest_is_of_these_sources_and_objects():
    assert {"compiler": WRITTEN["compiler"], **bpf_objects.manifest()} == WRITTEN, "run `make bpf`"
    assert {path.name.removesuffix(".c") for path in SOURCES} == {
        path.name.removesuffix(".o") for path in FOLDER.glob("*.o")
    }


@pytest.mark.skipif(WRITTEN["compiler"] != TOOLS, reason=f"{WRITTEN['compiler']} is not on this machine")
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_same_compiler_makes_the_same_object(source, tmp_path):
    assert bpf_objects.compiled(source, tmp_path) == (FOLDER / f"{source.name.removesuffix('.c')}.o").read_bytes()


def test_no_path_of_a_machine_is_in_an_object():
    for path in FOLDER.glob("*.o"):
        assert not re.search(rb"/(home|root|tmp|work|usr|build)/", path.read_bytes())


def test_the_guest_file_holds_the_objects():
    assert {name for name in guest_sources() if name.endswith(".o")} == {
        f"stormcell/guest/bpf/{path.name}" for path in FOLDER.glob("*.o")
    }


def test_the_calls_are_in_the_order_of_the_program():
    text = (FOLDER / "errno.bpf.c").read_text()
    names = re.search(r"enum call \{(.*?)\}", text, re.S)
    assert names is not None
    listed = [name.strip("_ \n\t").lower() for name in names[1].split(",") if name.strip()]
    assert listed == [call.name for call in calls.CALLS]
    hooks = set(re.findall(r"^HOOK\((\w+), \d\)", text, re.M))
    assert hooks == {hook for call in calls.CALLS for hook in call.hooks}


def test_a_configuration_is_read_back_as_it_was_written():
    config = bpf_config.Config(
        1, 13, 250_000, 3, 7, 1 << 33, 1 << 40, 99, 2, 1, 1000, 1, 1 << 33, 5, 1, 443, 80, 16, 7, b"name",
        ("10.0.0.0/8", "127.0.0.1", "fd00::/8", "::1"),
    )  # fmt: skip
    assert len(config.packed()) == bpf_config.SIZE == 416
    assert bpf_config.unpacked(config.packed()) == config
