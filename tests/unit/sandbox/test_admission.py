from pathlib import Path

import pytest

from stormcell.sandbox.admission import DISK_OF_ONE, MEMORY_KEPT, MEMORY_OF_ONE, MIB, admit, disk_free, memory_available
from stormcell.spec.errors import HostError, NoSpace

FOLDER = Path("/sandboxes")
ROOM = 1 << 40


def test_enough_is_admitted():
    admit(256 * MIB, MEMORY_OF_ONE + MEMORY_KEPT, DISK_OF_ONE, FOLDER)


def test_too_little_memory_names_both_numbers():
    with pytest.raises(HostError, match="223 MiB are available") as caught:
        admit(256 * MIB, MEMORY_OF_ONE + MEMORY_KEPT - 1, ROOM, FOLDER)
    assert "224 MiB" in caught.value.rule


def test_a_large_guest_needs_more():
    admit(512 * MIB, 256 * MIB, ROOM, FOLDER)
    with pytest.raises(HostError):
        admit(4096 * MIB, 256 * MIB, ROOM, FOLDER)


def test_no_room_on_the_disk_names_the_folder():
    with pytest.raises(NoSpace) as caught:
        admit(256 * MIB, ROOM, DISK_OF_ONE - 1, FOLDER)
    assert caught.value.where == str(FOLDER)


def test_this_host_has_some(tmp_path):
    assert memory_available() > 0
    assert disk_free(tmp_path) > 0
