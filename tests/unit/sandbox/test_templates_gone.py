"""What goes and what stays of many templates, live and sealed."""

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from click.testing import CliRunner

from stormcell.cli.template import template as command
from stormcell.machine.held import held
from stormcell.machine.host import find_qemu
from stormcell.sandbox.templates_gone import RECENT_S, remove_named, remove_stale
from stormcell.sandbox.usage import users
from stormcell.spec.errors import TemplateError, TemplateNotFound
from stormcell.spec.home import Home
from stormcell.template.manifest import write_manifest
from stormcell.template.sealedstore import SealedStore
from stormcell.template.store import Store


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("STORMCELL_HOME", str(tmp_path))
    return Home.current()


def old(folder) -> None:
    then = time.time() - 2 * RECENT_S
    os.utime(folder, (then, then))


def sealed(home: Home, digit: str, name: str = "base", built: str = "2026-01-01", qemu: str = "", **more: Any) -> str:
    folder = home.sealed / (digit * 64)
    folder.mkdir(parents=True)
    (folder / "memory").write_bytes(b"x" * 8192)
    about = {
        "name": name, "built": built, "services": [], "snapshot": digit * 64, "build_seconds": 12.5,
        "layout": {"memory": 512 << 20, "disk_size": 1 << 30},
        "inputs": {"qemu": {"sha256": qemu or find_qemu().digest}}, **more,
    }  # fmt: skip
    write_manifest(folder, about)
    old(folder)
    return digit * 64


def live(home: Home, digit: str, name: str = "") -> str:
    folder = home.templates / (digit * 64)
    folder.mkdir(parents=True)
    (folder / "memory").write_bytes(b"x" * 4096)
    write_manifest(folder, {"name": name or "base", "built": "2026-01-01"})
    old(folder)
    if name:
        Store(home).remember(name, digit * 64)
    return digit * 64


def test_a_sealed_one_is_listed_with_its_cost(home):
    sealed(home, "a")
    (entry,) = SealedStore(home).list()
    assert (entry.state, entry.sealed, entry.memory_mib, entry.build_seconds) == ("ready", True, 512, 12.5)
    assert entry.bytes_on_disk >= 8192 and entry.snapshot == "a" * 64
    shown = CliRunner().invoke(command, ["list"])
    assert "sealed:" in shown.output and "aaaaaaaaaaaa" in shown.output and "12.5 s" in shown.output
    (told,) = json.loads(CliRunner().invoke(command, ["list", "--json"]).output)
    assert told["snapshot"] == "a" * 64 and told["sealed"] is True
    about = json.loads(CliRunner().invoke(command, ["show", "aaaaaaaa", "--verify"]).output)
    assert about["sealed"] is True and about["snapshot"] == "a" * 64


@pytest.mark.parametrize("damage", ["layout", "files", "no manifest"])
def test_a_damaged_sealed_one_is_listed_as_broken_and_goes(home, damage):
    more: dict[str, Any] = {"layout": 7} if damage == "layout" else {}
    digest = sealed(home, "a", **more)
    if damage == "files":
        (home.sealed / digest / "memory").write_bytes(b"y")
    elif damage == "no manifest":
        (home.sealed / digest / "manifest.json").unlink()
    old(home.sealed / digest)
    (entry,) = SealedStore(home).list()
    assert entry.state == "broken" and entry.reason
    (gone,) = remove_stale(home)
    assert not gone.kept and not (home.sealed / digest).exists()


def test_stale_are_replaced_ones_and_those_of_another_qemu_and_they_go_with_what_they_took(home):
    newest, older = sealed(home, "a", built="2026-01-02"), sealed(home, "b")
    foreign = sealed(home, "c", name="other", qemu="0" * 64)
    gone = {item.entry.digest: item for item in remove_stale(home)}
    assert gone.keys() == {older, foreign}
    assert all(item.freed >= 8192 and not item.kept for item in gone.values())
    assert [path.name for path in home.sealed.iterdir() if path.is_dir()] == [newest]
    assert gone[older].why == "a newer one has its name"


def test_what_was_asked_for_lately_stays(home):
    sealed(home, "a", built="2026-01-02")
    older = sealed(home, "b")
    os.utime(home.sealed / older)
    (kept,) = remove_stale(home)
    assert kept.kept == "asked for 0 minutes ago" and (home.sealed / older).is_dir()


def test_a_dry_run_removes_nothing(home):
    sealed(home, "a", built="2026-01-02")
    older = sealed(home, "b")
    (item,) = remove_stale(home, dry_run=True)
    assert item.freed and (home.sealed / older).is_dir()
    told = json.loads(CliRunner().invoke(command, ["rm", "--stale", "--dry-run", "--json"]).output)
    assert told["removed"] == [] and told["freed"] == item.freed


@pytest.mark.parametrize("by", ["sandbox", "snapshot", "instant", "process"])
def test_what_is_used_stays(home, by):
    sealed(home, "a", built="2026-01-02")
    digest = sealed(home, "b")
    home.instants.mkdir(parents=True)
    if by == "process":
        path = str(home.sealed / digest / "vmlinuz")
        child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(600)", path],
                                 stdout=subprocess.PIPE)  # fmt: skip
        assert child.stdout is not None
        with child.stdout:
            child.stdout.readline()
        try:
            (kept,) = remove_stale(home)
        finally:
            child.kill()
            child.wait()
    elif by == "instant":
        with held(home.instants, "i-", digest):
            (kept,) = remove_stale(home)
            with pytest.raises(TemplateError, match="in use: instant i-"):
                remove_named(home, [digest])
    else:
        path = home.state / {"sandbox": "sandboxes/sc-0/record.json", "snapshot": "snapshots/mine/manifest.json"}[by]
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"template": digest}))
        (kept,) = remove_stale(home)
    assert kept.kept.startswith(f"in use: {by}") and (home.sealed / digest).is_dir()


def test_a_record_that_cannot_be_read_keeps_everything(home):
    sealed(home, "a")
    path = home.state / "sandboxes/sc-0/record.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(TemplateError, match="nobody knows what it stands on"):
        users(home)
    with pytest.raises(TemplateError, match="stormcell gc"):
        remove_named(home, ["base"])


def test_a_name_means_the_live_one_and_its_sealed_variants(home):
    mine, other = live(home, "d", "base"), live(home, "e")
    variant = sealed(home, "a")
    gone = remove_named(home, ["base"])
    assert {item.entry.digest for item in gone} == {mine, variant}
    assert [path.name for path in home.templates.iterdir() if path.is_dir()] == [other]
    with pytest.raises(TemplateNotFound):
        remove_named(home, ["base"])
    (item,) = remove_named(home, [other[:8]])
    assert item.freed >= 4096


def test_a_live_one_that_no_name_stands_for_is_stale(home):
    live(home, "d", "base")
    nameless = live(home, "e")
    found = {item.entry.digest: item for item in remove_stale(home)}
    assert nameless in found and not found[nameless].kept


@pytest.mark.parametrize("words", [[], ["base", "--stale"], ["base", "--dry-run"]])
def test_names_or_stale(home, words):
    assert CliRunner().invoke(command, ["rm", *words]).exit_code == 2
