import os
import subprocess
import sys

import pytest

from stormcell.machine.sockets import Slot, connect, listen
from stormcell.spec.errors import SandboxError, SandboxNotFound


def test_a_path_longer_than_a_socket_address(tmp_path):
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    with listen(folder / "qmp.0.sock") as server, connect(folder / "qmp.0.sock") as client:
        peer, _ = server.accept()
        with peer:
            client.setblocking(True)
            client.sendall(b"x")
            assert peer.recv(1) == b"x"
    assert (folder / "qmp.0.sock").stat().st_mode & 0o777 == 0o600


def test_nobody_listening_is_a_sandbox_that_is_gone(tmp_path):
    listen(tmp_path / "a.sock").close()
    for name in ("a.sock", "never.sock"):
        with pytest.raises(SandboxNotFound):
            connect(tmp_path / name)
    with pytest.raises(SandboxNotFound):
        connect(tmp_path / "no-folder" / "a.sock")


def test_slots_run_out_and_come_back(tmp_path):
    slots = [Slot.take(tmp_path, "agent", 2) for _ in range(2)]
    assert slots[0].path != slots[1].path
    with pytest.raises(SandboxError, match="all 2 agent ports"):
        Slot.take(tmp_path, "agent", 2)
    slots[0].release()
    slots[0].release()
    again = Slot.take(tmp_path, "agent", 2)
    assert again.path == slots[0].path
    again.release()
    slots[1].release()


def test_a_slot_of_a_killed_process_is_free(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from stormcell.machine.sockets import Slot\n"
        "slot = Slot.take(Path(sys.argv[1]), 'qmp', 1); print('held', flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(SandboxError):
            Slot.take(tmp_path, "qmp", 1)
    finally:
        other.kill()
        other.communicate()
    Slot.take(tmp_path, "qmp", 1).release()


def test_a_folder_that_is_gone(tmp_path):
    with pytest.raises(SandboxNotFound):
        Slot.take(tmp_path / "gone", "qmp", 1)
    assert not os.path.lexists(tmp_path / "gone")
