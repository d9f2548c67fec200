"""Saved moments: restorable after the sandbox and its process are gone, refused when damaged, removed whole."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stormcell import Sandbox
from stormcell.sandbox import layers, snapshots
from stormcell.sandbox.record import Record
from stormcell.spec.errors import SnapshotBroken, SnapshotNotFound, SpecError


@pytest.fixture
def parent(home, template):
    with Sandbox.create(template, ttl_seconds=600, open_ports={"web": 8080}) as made:
        yield made
    for name in snapshots.names(home):
        snapshots.remove(home, name)
    assert not snapshots.unfinished(home)
    assert list(layers.folder_of(home.state).iterdir()) == []


def filled(sbx):
    sbx.exec("echo disk > /root/file; echo ram > /run/file")
    sbx.exec("(while :; do date +%s >> /run/tick; sleep 0.1; done) >/dev/null 2>&1 &")


def test_a_moment_outlives_its_sandbox_and_is_restored_twice(parent, home):
    filled(parent)
    saved = parent.snapshot("moment.1", metadata={"why": "test"})
    parent.exec("echo later > /root/file; sync")
    assert parent.exec("cat /run/file").text == "ram\n"
    grown = parent.snapshot("moment.2")
    assert saved.digest != grown.digest
    assert (saved.parent, saved.metadata, saved.open_ports) == (parent.id, {"why": "test"}, {"web": 8080})
    assert 1 << 20 < saved.size < 200 << 20
    parent.kill()
    time.sleep(2)
    with Sandbox.restore("moment.1") as one, Sandbox.restore("moment.1", metadata={"n": "2"}) as two:
        lag = []
        for sbx in (one, two):
            assert sbx.exec("cat /root/file /run/file").text == "disk\nram\n"
            goes_on = "n=$(wc -l < /run/tick); until test $(wc -l < /run/tick) -gt $n; do sleep 0.1; done"
            sbx.exec(goes_on, timeout=60, check=True)
            assert sbx.exec("cat /proc/sys/kernel/hostname").text.strip() == sbx.id
            lag.append(min(time.time() - float(sbx.exec("date +%s.%N").text) for _ in range(3)))
            assert set(sbx.ports) == {"web"}
        # a clock that nobody steps would lag by all that was done since
        assert abs(min(lag)) < 2 and max(lag) < 10, lag
        record = Record.read(two.folder)
        assert record is not None
        assert (record.snapshot, record.metadata) == ("moment.1", {"n": "2"})
        child = one.fork()
        with child:
            assert child.exec("cat /root/file").text == "disk\n"
    with Sandbox.restore("moment.2") as last:
        assert last.exec("cat /root/file").text == "later\n"
    snapshots.remove(home, "moment.1")
    with Sandbox.restore("moment.2") as last:
        assert last.exec("cat /root/file").text == "later\n"


def damage_pages(folder, state):
    with (folder / "pages").open("r+b") as file:
        file.seek((folder / "pages").stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def damage_disk(folder, state):
    (disk,) = state.glob("layers/*/disk.qcow2")
    with disk.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def cut_state(folder, state):
    os.truncate(folder / "state", 100)


def lose_layer(folder, state):
    (layer,) = state.glob("layers/*")
    shutil.rmtree(layer)


def tear_manifest(folder, state):
    os.truncate(folder / "manifest.json", 100)


@pytest.mark.parametrize("harm", [damage_pages, damage_disk, cut_state, lose_layer, tear_manifest])
def test_a_damaged_one_is_refused_and_nothing_is_left(home, template, harm):
    with Sandbox.create(template) as parent:
        parent.exec("echo x > /root/x; sync")
        parent.snapshot("harmed")
    harm(home.state / "snapshots" / "harmed", home.state)
    with pytest.raises(SnapshotBroken, match="the snapshot is damaged"):
        Sandbox.restore("harmed")
    assert not any(home.sandboxes.iterdir())
    snapshots.remove(home, "harmed")
    assert not any(layers.folder_of(home.state).iterdir())


def test_names_are_checked_and_never_taken_twice(parent):
    for name in ("", "../up", "A", "-x", "x" * 64, ".hidden"):
        with pytest.raises(SpecError, match="cannot name a snapshot"):
            parent.snapshot(name)
    parent.snapshot("once")
    with pytest.raises(SpecError, match="already"):
        parent.snapshot("once")
    with pytest.raises(SnapshotNotFound, match="did you mean 'once'"):
        Sandbox.restore("onec")


def test_of_two_that_take_one_name_at_once_the_second_hears_that_it_is_taken(parent, home, template):
    with Sandbox.create(template, ttl_seconds=300) as other, ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(each.snapshot, "same") for each in (parent, other)]
        refused = [error for each in tries if (error := each.exception())]
    assert [(type(error), "already" in str(error)) for error in refused] == [(SpecError, True)], refused
    assert snapshots.names(home) == ["same"]
