"""A kernel is fetched only where there is room for it."""

from collections import namedtuple

import pytest

from stormcell.machine.kernel import ensure_kernel
from stormcell.spec.errors import NoSpace
from stormcell.spec.home import Home


def test_no_room_is_said_before_anything_is_fetched(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1 << 30, 1 << 30, 1 << 20))
    monkeypatch.setenv("PATH", "/nowhere")  # a program that is looked for would be another error
    with pytest.raises(NoSpace, match="are needed"):
        ensure_kernel(Home(tmp_path / "state", tmp_path / "cache"))
    assert [path.name for path in (tmp_path / "cache" / "kernels").iterdir()] == ["lock"]
