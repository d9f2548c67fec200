import json
import subprocess

import pytest

from stormcell.machine.disk import make_overlay
from stormcell.spec.errors import HostError


@pytest.mark.parametrize("size", [1 << 20, 1 << 30, (5 << 30) + 4096, 3 << 40])
@pytest.mark.parametrize("backing_format", ["raw", "qcow2"])
def test_an_overlay_is_what_qemu_img_would_make(tmp_path, size, backing_format):
    backing, ours, theirs = tmp_path / "a backing file", tmp_path / "ours", tmp_path / "theirs"
    subprocess.run(["qemu-img", "create", "-q", "-f", backing_format, backing, "1M"], check=True)
    make_overlay(ours, backing, backing_format, size=size)
    command = ["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", backing_format, "-b", backing, theirs, str(size)]
    subprocess.run(command, check=True)
    assert about(ours) == about(theirs)
    assert subprocess.run(["qemu-img", "check", "-q", ours]).returncode == 0
    assert ours.stat().st_mode & 0o777 == 0o600


def about(path):
    said = subprocess.run(
        ["qemu-img", "info", "--output=json", path], check=True, capture_output=True, text=True
    ).stdout
    return {key: value for key, value in json.loads(said).items() if key not in ("filename", "actual-size")}


def test_what_is_written_through_it_is_read_back_over_what_lies_below(tmp_path):
    below, over = tmp_path / "below", tmp_path / "over"
    below.write_bytes(b"b" * (2 << 20))
    make_overlay(over, below, "raw", size=2 << 20)
    acts = [
        "-c",
        "read -P 98 0 2M",
        "-c",
        "write -P 7 65000 3000",
        "-c",
        "read -P 7 65000 3000",
        "-c",
        "read -P 98 0 65000",
    ]
    done = subprocess.run(["qemu-io", "-f", "qcow2", *acts, over], capture_output=True, text=True)
    assert done.returncode == 0
    assert "failed" not in done.stdout
    assert subprocess.run(["qemu-img", "check", "-q", over]).returncode == 0


def test_a_name_that_is_too_long_or_a_missing_folder_is_told(tmp_path):
    with pytest.raises(HostError, match="overlay cannot be made"):
        make_overlay(tmp_path / "over", tmp_path / "/".join(["x" * 200] * 6), "raw", size=1 << 20)
    with pytest.raises(HostError, match="overlay cannot be made"):
        make_overlay(tmp_path / "none" / "over", tmp_path / "below", "raw", size=1 << 20)
