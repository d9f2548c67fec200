from __future__ import annotations

import errno
import hashlib
import os
import stat as modes
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stormcell.machine import files
from stormcell.machine.files import Entry
from stormcell.spec.errors import GuestFileError, SandboxError
from tests.unit.guest.agent_process import asynchronous, connected, running_agent, until

ROOT = os.geteuid() == 0
MIB = 1024 * 1024
ODD = [b"plain", b"new\nline", b"\xff\xfe not utf-8", "ümlaut".encode(), b" ", b"-rf", b"x" * 255, b'"\\']


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def contents(source: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in source])


@asynchronous
async def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    async with connected() as channel:
        for data in (b"", b"\0\xff\n", os.urandom(3 * MIB)):
            assert await files.write(channel, f"{tmp_path}/f", data) == len(data)
            assert await contents(files.read(channel, f"{tmp_path}/f")) == data == (tmp_path / "f").read_bytes()


@asynchronous
async def test_a_big_file_is_never_held_whole(tmp_path: Path) -> None:
    block = os.urandom(MIB)
    count = 200

    def pieces() -> Iterator[bytes]:
        for n in range(count):
            yield n.to_bytes(4, "big") + block[4:]

    wanted, got = hashlib.sha256(), hashlib.sha256()
    for piece in pieces():
        wanted.update(piece)
    async with running_agent() as agent:
        channel = await agent.channel()
        assert await files.write(channel, f"{tmp_path}/big", pieces()) == count * MIB
        async for chunk in files.read(channel, f"{tmp_path}/big"):
            got.update(chunk)
        assert got.digest() == wanted.digest()
        status = Path(f"/proc/{agent.process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak < 64 * 1024


@pytest.mark.parametrize("name", ODD)
@asynchronous
async def test_a_name_may_be_any_bytes(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    async with connected() as channel:
        await files.write(channel, path, b"content")
        assert await files.exists(channel, path)
        assert (await files.stat(channel, path)).size == 7
        assert [os.fsencode(entry.name) for entry in await files.list(channel, str(tmp_path))] == [name]
        await files.remove(channel, path)
        assert not await files.exists(channel, path)
        assert names(tmp_path) == []


@asynchronous
async def test_stat_tells_what_lstat_tells(tmp_path: Path) -> None:
    target = os.fsdecode(b"to\xff\n")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "folder").mkdir(mode=0o2750)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "file").chmod(0o4711)
    os.utime(tmp_path / "file", ns=(1, 1_234_567_890_123_456_789))
    async with connected() as channel:
        for name, kind in (("link", "link"), ("folder", "directory"), ("fifo", "fifo"), ("file", "file")):
            found, real = await files.stat(channel, f"{tmp_path}/{name}"), (tmp_path / name).lstat()
            assert found.type == kind
            assert (found.size, found.uid, found.gid) == (real.st_size, real.st_uid, real.st_gid)
            assert (found.mode, found.mtime_ns) == (modes.S_IMODE(real.st_mode), real.st_mtime_ns)
        assert (await files.stat(channel, f"{tmp_path}/link")).target == target
        assert (await files.stat(channel, "/dev/null")).type == "character device"
        assert {entry.name: entry.stat.type for entry in await files.list(channel, str(tmp_path))} == {
            "link": "link", "folder": "directory", "fifo": "fifo", "file": "file",
        }  # fmt: skip


@asynchronous
async def test_mode_is_the_one_asked_for_or_the_former(tmp_path: Path) -> None:
    async with connected() as channel:
        path = tmp_path / "f"
        await files.write(channel, str(path), b"1")
        assert modes.S_IMODE(path.stat().st_mode) == 0o644
        await files.write(channel, str(path), b"2", mode=0o4755)
        assert modes.S_IMODE(path.stat().st_mode) == 0o4755
        await files.write(channel, str(path), b"3")
        assert (path.read_bytes(), modes.S_IMODE(path.stat().st_mode)) == (b"3", 0o4755)


@pytest.mark.skipif(not ROOT, reason="only root may give files away")
@asynchronous
async def test_owner_is_the_one_asked_for_or_the_former(tmp_path: Path) -> None:
    async with connected() as channel:
        path = tmp_path / "f"
        await files.write(channel, str(path), b"1", owner="nobody:12")
        assert (path.stat().st_uid, path.stat().st_gid) == (65534, 12)
        await files.write(channel, str(path), b"2")
        assert (path.stat().st_uid, path.stat().st_gid) == (65534, 12)
        await files.write(channel, str(path), b"3", owner="7:8")
        assert (path.stat().st_uid, path.stat().st_gid) == (7, 8)
        with pytest.raises(SandboxError, match="no such user"):
            await files.write(channel, str(path), b"4", owner="no-such-user")
        assert path.read_bytes() == b"3" and names(tmp_path) == ["f"]


@asynchronous
async def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    async with connected() as channel:
        await files.write(channel, f"{tmp_path}/link", b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"x"


@asynchronous
async def test_a_source_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield bytes(MIB)
        raise RuntimeError("the source broke")

    async with connected() as channel:
        with pytest.raises(RuntimeError, match="the source broke"):
            await files.write(channel, f"{tmp_path}/f", pieces())
        await until(lambda: not channel._exchanges)
        assert (tmp_path / "f").read_bytes() == b"old" and names(tmp_path) == ["f"]


@asynchronous
async def test_a_hang_up_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    async with running_agent() as agent:
        channel = await agent.channel()

        async def pieces() -> AsyncIterator[bytes]:
            yield bytes(MIB)
            await channel.close()

        with pytest.raises(SandboxError):
            await files.write(channel, f"{tmp_path}/f", pieces())
        children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children")
        await until(lambda: not children.read_text().strip())
    assert (tmp_path / "f").read_bytes() == b"old" and names(tmp_path) == ["f"]


@asynchronous
async def test_parents_are_made_on_request(tmp_path: Path) -> None:
    async with connected() as channel:
        with pytest.raises(GuestFileError) as caught:
            await files.write(channel, f"{tmp_path}/a/b/f", b"x")
        assert caught.value.errno == errno.ENOENT
        await files.write(channel, f"{tmp_path}/a/b/f", b"x", parents=True, sync=True)
        assert (tmp_path / "a/b/f").read_bytes() == b"x"
        await files.mkdir(channel, f"{tmp_path}/c/d", parents=True, mode=0o700)
        await files.mkdir(channel, f"{tmp_path}/c/d", parents=True)
        assert (tmp_path / "c/d").is_dir()


@asynchronous
async def test_remove_never_follows_a_link_out(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "f").write_bytes(b"x")
    victim = tmp_path / "victim"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep/link").symlink_to(precious)
    (tmp_path / "link").symlink_to(precious)
    async with connected() as channel:
        with pytest.raises(GuestFileError) as caught:
            await files.remove(channel, str(victim))
        assert caught.value.errno == errno.ENOTEMPTY
        await files.remove(channel, str(victim), recursive=True)
        await files.remove(channel, f"{tmp_path}/link", recursive=True)
    assert not victim.exists() and not (tmp_path / "link").is_symlink()
    assert (precious / "f").read_bytes() == b"x"


@asynchronous
async def test_a_very_deep_folder_is_removed(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    async with connected() as channel:
        await files.remove(channel, f"{tmp_path}/d", recursive=True)
    assert names(tmp_path) == []


@asynchronous
async def test_errors_carry_errno_and_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    missing = f"{tmp_path}/no\nsuch"
    async with connected() as channel:
        cases = [
            (contents(files.read(channel, missing)), errno.ENOENT),
            (contents(files.read(channel, str(tmp_path))), errno.EISDIR),
            (contents(files.read(channel, f"{tmp_path}/fifo")), errno.EINVAL),
            (contents(files.read(channel, f"{tmp_path}/loop")), errno.ELOOP),
            (contents(files.read(channel, "/dev/zero")), errno.EINVAL),
            (files.write(channel, str(tmp_path), b""), errno.EISDIR),
            (files.write(channel, f"{tmp_path}/loop", b""), errno.ELOOP),
            (files.write(channel, f"{tmp_path}/file/x", b""), errno.ENOTDIR),
            (files.write(channel, f"{tmp_path}/{'n' * 256}", b""), errno.ENAMETOOLONG),
            (files.stat(channel, missing), errno.ENOENT),
            (files.list(channel, f"{tmp_path}/file"), errno.ENOTDIR),
            (files.exists(channel, f"{tmp_path}/{'n' * 256}"), errno.ENAMETOOLONG),
            (files.remove(channel, missing), errno.ENOENT),
            (files.mkdir(channel, f"{tmp_path}/file"), errno.EEXIST),
        ]
        for operation, number in cases:
            with pytest.raises(GuestFileError) as caught:
                await operation
            assert caught.value.errno == number, str(caught.value)
            assert caught.value.where.startswith(str(tmp_path)) or caught.value.where == "/dev/zero"
            assert "\n" not in caught.value.where


@asynchronous
async def test_only_no_such_file_is_a_no(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    async with connected() as channel:
        assert await files.exists(channel, f"{tmp_path}/dangling")
        assert not await files.exists(channel, f"{tmp_path}/nothing")


@asynchronous
async def test_a_long_listing_is_streamed_and_capped(tmp_path: Path) -> None:
    for n in range(3000):
        (tmp_path / f"{n:05d}").touch()
    async with connected() as channel:
        entries = await files.list(channel, str(tmp_path))
        assert [entry.name for entry in entries] == [f"{n:05d}" for n in range(3000)]
        assert isinstance(entries[0], Entry)
        with pytest.raises(SandboxError, match="more than 100 entries"):
            await files.list(channel, str(tmp_path), limit=100)
        assert len(await files.list(channel, str(tmp_path))) == 3000


@asynchronous
async def test_a_reader_that_leaves_early_leaves_nothing_running() -> None:
    async with running_agent() as agent:
        channel = await agent.channel()
        source = files.read(channel, f"/proc/{os.getpid()}/environ")
        await anext(source)
        await source.aclose()  # type: ignore[attr-defined]
        await until(lambda: not channel._exchanges)


@pytest.mark.parametrize("path", ["relative", "", "/a\0b"])
@asynchronous
async def test_a_path_that_is_none_is_not_sent(path: str) -> None:
    async with connected() as channel:
        with pytest.raises(SandboxError, match="begins with /"):
            await files.stat(channel, path)


@asynchronous
async def test_proc_files_have_contents_without_a_size() -> None:
    async with connected() as channel:
        assert b"MemTotal" in await contents(files.read(channel, "/proc/meminfo"))
        await channel.sync()
