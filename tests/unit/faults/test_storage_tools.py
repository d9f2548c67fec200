"""What of the tools for disks can run anywhere: the arithmetic of sectors, what the kernel's texts mean."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell.guest.tools import counters, mounts
from stormcell.guest.tools.block import dm, extents, filecache, volume

RANGES = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 300)), min_size=1, max_size=8).map(
    lambda pairs: extents.joined(
        [
            (sum(gap + length for gap, length in pairs[:n]) * 8 + gap * 8, length * 8)
            for n, (gap, length) in enumerate(pairs)
        ]
    )
)


@given(RANGES, st.integers(1, 1000))
@settings(max_examples=300, deadline=None)
def test_a_share_is_so_much_of_it_and_inside_it(ranges, permille):
    whole = {sector for start, length in ranges for sector in range(start, start + length)}
    share = extents.share(ranges, permille / 10)
    taken = [sector for start, length in share for sector in range(start, start + length)]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= whole
    assert abs(len(taken) - max(8, len(whole) * permille / 1000)) <= 8
    assert all(length % 8 == 0 for _, length in share)
    assert extents.joined(share) == share


def test_what_touches_is_joined():
    assert extents.joined([(8, 8), (0, 8), (24, 8)]) == [(0, 16), (24, 8)]
    assert extents.share([(0, 800)], 100) == [(0, 800)]


def test_the_kernels_histogram_is_read_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(counters, "TRACING", str(tmp_path))
    folder = tmp_path / "events" / "block" / "x"
    folder.mkdir(parents=True)
    head = "# event histogram\n#\n# trigger info: hist:name=stormcell_{}:keys=common_pid.execname,rwbs [active]\n#\n\n"
    entry = "{{ common_pid: {:<16}[{:>11}], rwbs: WS, error: 18446744073709551611 }} hitcount: {:>10}  nr_sector: 24\n"
    (folder / "hist").write_text(
        head.format("a_b") + entry.format("dd", 12, 3) + head.format("c") + entry.format("a, b", 7, 9)
    )
    (folder / "trigger").write_text("# Available triggers:\n")
    expected = {"process": "dd[12]", "rwbs": "WS", "error": "-5", "hitcount": "3", "nr_sector": "24"}
    assert counters.read("a-b", "block/x") == [expected]
    assert [entry["process"] for entry in counters.read("c", "block/x") or ()] == ["a, b[7]"]
    assert counters.read("d", "block/x") is None
    assert counters.read("a-b", "block/y") is None
    counters.stop("a-b", ("block/x", "block/y"))


def test_a_trigger_is_added_and_taken_away_and_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(counters, "TRACING", str(tmp_path))
    folder = tmp_path / "events" / "e" / "x"
    folder.mkdir(parents=True)
    (folder / "trigger").write_text("hist:name=other:keys=k [active]\n")
    counters.start("one", "e/x", "common_pid", "ret == -5")
    assert (
        (folder / "trigger")
        .read_text()
        .endswith("\nhist:keys=common_pid:vals=hitcount:name=stormcell_one if ret == -5")
    )
    (folder / "trigger").write_text("hist:name=stormcell_one:keys=k if ret == -5 [active]\n")
    with pytest.raises(ValueError, match="counts as 'one' already"):
        counters.start("one", "e/x", "common_pid", "ret == -5")
    counters.stop("one", ("e/x",))
    assert (folder / "trigger").read_text().endswith("!hist:name=stormcell_one:keys=k if ret == -5")


def test_a_table_goes_to_the_kernel_and_back(monkeypatch):
    segments = [dm.Segment(0, 8, "linear", "7:0 0"), dm.Segment(8, 16, "error", "")]
    sent = {}
    monkeypatch.setattr(dm, "_call", lambda command, name, **given: sent.update(given))
    dm.load("x", segments)
    at, data = 0, sent["data"]
    for _ in range(sent["count"]):  # the kernel writes offsets from the beginning, and reads them from the segment
        step = int.from_bytes(data[at + 20 : at + 24], "little")
        data = data[: at + 20] + (at + step).to_bytes(4, "little") + data[at + 24 :]
        at += step
    assert list(dm._segments(dm.Answer(0, 0, 2, data))) == segments


def test_the_mount_of_a_path_is_the_one_that_holds_it(tmp_path):
    (tmp_path / "link").symlink_to("/proc/self")
    assert mounts.of(str(tmp_path / "link")).kind == "proc"
    assert mounts.of("/proc/self/status").point == "/proc"
    assert mounts.at("/proc") is not None
    assert mounts.at(str(tmp_path)) is None
    with pytest.raises(FileNotFoundError):
        mounts.of("/no/such/path")


@pytest.mark.parametrize(("text", "size"), [("64MiB", 1 << 26), ("1GiB", 1 << 30), ("512", 512), ("8KiB", 8192)])
def test_sizes_are_read(text, size):
    assert volume._bytes(text) == size


@pytest.mark.parametrize("text", ["", "64 MiB", "-1", "64M", "1.5GiB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is no size"):
        volume._bytes(text)


def test_every_file_below_a_folder_is_dropped_once(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (tmp_path / name).write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert filecache.drop(str(tmp_path)) == 3
    assert filecache.drop(str(tmp_path / "one")) == 1
