"""The ledger: once claimed, once finished, whatever happens to the writer and to the disk."""

import os
import resource
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.ledger.journal import Journal
from stormcell.ledger.model import Entry, Wrong
from stormcell.spec.errors import HostError, NoSpace, SpecError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def test_what_was_written_is_there_again(path):
    with Journal.open(path) as journal:
        assert journal.claim("a") == 1
        journal.finish("a", {"verdict": "survived"})
        journal.claim("b")
        journal.release("b", "interrupted")
        assert journal.claim("b") == 2
    with Journal.open(path) as journal:
        assert journal.entry("a") == Entry("finished", 1, {"verdict": "survived"})
        assert journal.entry("b") == Entry("claimed", 2)
        assert journal.entry("c") == Entry()


def test_what_is_finished_is_not_claimed_again_unless_somebody_wants_that(path):
    with Journal.open(path) as journal:
        journal.claim("a")
        with pytest.raises(Wrong):
            journal.claim("a")
        journal.finish("a", {})
        for wrong in (lambda: journal.claim("a"), lambda: journal.finish("a", {}), lambda: journal.release("a", "")):
            with pytest.raises(Wrong):
                wrong()
        journal.reopen("a", "asked for")
        assert journal.claim("a") == 2


def test_one_writer_at_a_time_and_any_reader(path):
    with Journal.open(path) as journal:
        journal.claim("a")
        with pytest.raises(HostError, match="another process"):
            Journal.open(path)
        assert Journal.read(path).entry("a").state == "claimed"
    Journal.open(path).close()


def whole(path):
    with Journal.open(path) as journal:
        for number in range(3):
            journal.claim(f"e{number}")
            journal.finish(f"e{number}", {"verdict": "failed", "seconds": 1.5})
    return path.read_bytes()


def test_torn_at_any_byte_the_lines_before_it_hold_and_writing_goes_on(path):
    raw = whole(path)
    boundaries = [at for at, byte in enumerate(raw) if byte == 10]
    for cut in sorted({*range(0, len(raw), 29), *boundaries, *(at + 1 for at in boundaries)}):
        path.write_bytes(raw[:cut])
        kept = raw[:cut].count(b"\n")
        with Journal.open(path) as journal:
            assert path.stat().st_size == len(b"".join(raw.splitlines(keepends=True)[:kept]))
            states = [entry.state for entry in journal.entries.values()]
            assert states.count("finished") == kept // 2
            journal.claim("later")
        with Journal.open(path) as journal:
            assert journal.entry("later").state == "claimed"


@given(st.data())
def test_damage_before_the_last_line_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    raw = bytearray(whole(path))
    last = raw.rstrip(b"\n").rfind(b"\n")
    place = int(data.draw(st.floats(0, 1, exclude_max=True)) * last)
    raw[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with pytest.raises(SpecError, match="damaged in line"):
        Journal.open(path)


def test_a_line_that_went_missing_is_noticed(path):
    lines = whole(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[4:]))
    with pytest.raises(SpecError, match="damaged in line 3"):
        Journal.read(path)


def test_a_full_disk_leaves_the_ledger_as_it_was(path):
    with Journal.open(path) as journal:
        journal.claim("a")
        size = path.stat().st_size
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
        try:
            with pytest.raises(NoSpace, match="cannot be written"):
                journal.finish("a", {"verdict": "survived"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.stat().st_size == size
        assert journal.entry("a").state == "claimed"
        journal.finish("a", {"verdict": "survived"})
    assert Journal.read(path).entry("a").state == "finished"


def test_a_killed_writer_leaves_no_lock(path):
    code = f"""
import os, signal
from pathlib import Path
from stormcell.ledger.journal import Journal
journal = Journal.open(Path({str(path)!r}))
journal.claim("a")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    with Journal.open(path) as journal:
        assert journal.entry("a") == Entry("claimed", 1)
