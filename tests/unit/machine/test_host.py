import re

import pytest

from stormcell.machine.host import find_qemu, tool, tsc_khz
from stormcell.spec.errors import MissingTool


def test_a_missing_tool_comes_with_its_package():
    with pytest.raises(MissingTool) as caught:
        tool("no-such-program", "some-package")
    assert "some-package" in caught.value.remedy


def test_qemu_is_named_by_its_content():
    qemu = find_qemu()
    assert re.fullmatch(r"[0-9a-f]{64}", qemu.digest) and re.match(r"\d+\.\d+", qemu.version)


def test_the_counter_runs_at_a_frequency_that_processors_have():
    assert 500_000 < tsc_khz() < 10_000_000
