import errno
import hashlib
import io
import os

import pytest

from stormcell.spec.errors import GuestFileError, HostError, OutputLimit

LARGE = 256 << 20
"""By hand with 1 GB; here what does not keep others waiting."""


@pytest.fixture
def folder(sbx):
    sbx.filesystem.make_dir("/root/work")
    yield "/root/work"
    sbx.filesystem.remove("/root/work", recursive=True)


def test_write_and_read_binary_with_mode_and_owner(sbx, folder):
    data = os.urandom(200_000)
    assert sbx.filesystem.write(f"{folder}/a/b/c", data, mode=0o640, owner="nobody:nogroup") == len(data)
    assert sbx.filesystem.read(f"{folder}/a/b/c") == data
    about = sbx.filesystem.stat(f"{folder}/a/b/c")
    assert (about.type, about.size, about.mode & 0o7777) == ("file", len(data), 0o640)
    assert sbx.exec(["stat", "-c", "%U:%G", f"{folder}/a/b/c"]).text == "nobody:nogroup\n"


def test_text_and_the_empty_file(sbx, folder):
    sbx.filesystem.write(f"{folder}/t", "größer\n")
    assert sbx.filesystem.read_text(f"{folder}/t") == "größer\n"
    sbx.filesystem.write(f"{folder}/t", b"")
    assert sbx.filesystem.read(f"{folder}/t") == b""


def test_names_may_hold_any_byte(sbx, folder):
    name = b"new\nline \xff\xfe"
    sbx.filesystem.write(folder.encode() + b"/" + name, b"x")
    assert [os.fsencode(entry.name) for entry in sbx.filesystem.list(folder)] == [name]
    assert sbx.filesystem.read(folder.encode() + b"/" + name) == b"x"


def test_list_stat_exists_remove(sbx, folder):
    files = sbx.filesystem
    files.write(f"{folder}/file", b"12345")
    files.make_dir(f"{folder}/sub/deep")
    sbx.exec(["ln", "-s", "/etc/passwd", f"{folder}/link"], check=True)
    found = {entry.name: (entry.stat.type, entry.stat.target) for entry in files.list(folder)}
    assert found == {"file": ("file", None), "sub": ("directory", None), "link": ("link", "/etc/passwd")}
    assert files.exists(f"{folder}/link")
    assert not files.exists(f"{folder}/none")
    with pytest.raises(GuestFileError) as caught:
        files.remove(f"{folder}/sub")
    assert caught.value.errno == errno.ENOTEMPTY
    files.remove(f"{folder}/sub", recursive=True)
    files.remove(f"{folder}/link")
    assert files.exists("/etc/passwd")
    assert [entry.name for entry in files.list(folder)] == ["file"]


@pytest.mark.parametrize(
    ("act", "number"),
    [
        (lambda f: f.read("/no/such"), errno.ENOENT),
        (lambda f: f.read("/etc"), errno.EISDIR),
        (lambda f: f.list("/etc/passwd"), errno.ENOTDIR),
        (lambda f: f.write("/proc/nope", b"x"), None),
        (lambda f: f.exists("/etc/passwd/x"), errno.ENOTDIR),
    ],
)
def test_errors_carry_the_guests_errno(sbx, act, number):
    with pytest.raises(GuestFileError) as caught:
        act(sbx.filesystem)
    assert number is None or caught.value.errno == number


def test_a_large_file_is_not_read_whole_by_accident(sbx):
    sbx.exec("head -c 3000000 /dev/zero > /run/large", check=True)
    with pytest.raises(OutputLimit):
        sbx.filesystem.read("/run/large", max_bytes=1_000_000)
    assert len(sbx.filesystem.read("/run/large")) == 3_000_000


@pytest.mark.timeout(900)
def test_a_quarter_of_a_gigabyte_there_and_back(sbx, folder, tmp_path):
    block, digest = os.urandom(1 << 20), hashlib.sha256()

    def pieces():
        for _ in range(LARGE >> 20):
            digest.update(block)
            yield block

    assert sbx.filesystem.write_stream(f"{folder}/large", pieces()) == LARGE
    target = tmp_path / "back"
    assert sbx.filesystem.read_stream(f"{folder}/large", target) == LARGE
    with target.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest.hexdigest()


def test_streams_from_and_to_paths_and_open_files(sbx, folder, tmp_path):
    data = os.urandom(2_500_000)
    source = tmp_path / "source"
    source.write_bytes(data)
    sbx.filesystem.write_stream(f"{folder}/one", source)
    sbx.filesystem.write_stream(f"{folder}/two", io.BytesIO(data))
    for name in ("one", "two"):
        out = io.BytesIO()
        assert sbx.filesystem.read_stream(f"{folder}/{name}", out) == len(data)
        assert out.getvalue() == data
    assert b"".join(sbx.filesystem.chunks(f"{folder}/one")) == data


def test_a_stream_that_breaks_leaves_the_old_file(sbx, folder, tmp_path):
    def broken():
        yield b"new"
        raise ValueError("the source broke")

    sbx.filesystem.write(f"{folder}/f", b"old")
    with pytest.raises(ValueError, match="the source broke"):
        sbx.filesystem.write_stream(f"{folder}/f", broken())
    assert sbx.filesystem.read(f"{folder}/f") == b"old"
    assert [entry.name for entry in sbx.filesystem.list(folder)] == ["f"]
    with pytest.raises(GuestFileError):
        sbx.filesystem.read_stream("/no/such", tmp_path / "target")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HostError):
        sbx.filesystem.write_stream(f"{folder}/f", tmp_path / "none")
    with pytest.raises(HostError):
        sbx.filesystem.read_stream(f"{folder}/f", tmp_path / "none" / "x")
