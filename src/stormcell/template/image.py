"""The guest's root file system: Debian packages and kernel modules as a raw ext4 image, by root or anybody else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.durable import awaited_lock, check_room, publish
from stormcell.machine.host import tool
from stormcell.machine.kernel import Kernel
from stormcell.spec.errors import BuildFailed, TemplateBroken
from stormcell.spec.home import Home, private_folder
from stormcell.template.manifest import verify_files, write_manifest
from stormcell.template.namespace import as_root, check_namespace, own_mounts, remove_tree
from stormcell.template.sources import apt_options, debian_sources, host_suite

FORMAT = 1
"""Raised when the same inputs make another image."""
BASE_PACKAGES = (
    "e2fsprogs", "iproute2", "iputils-ping", "kmod", "libbpf1", "mount", "netbase", "nftables", "passwd", "procps",
    "python3", "util-linux",
)  # fmt: skip
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
LIMIT_S = 1800.0
ROOM = 3 << 30
"""Bytes for the tar, the unpacked tree and the image of a large recipe."""

GUARD = """exec 3<&0; trap 'trap "" TERM; kill -TERM 0; wait' TERM; "$@" <&3 3<&- & wait "$!" """
"""Leads the group. mmdebstrap waits for its children before it heeds a signal, so all of them must get it."""
SCRIPT = r"""
set -eu
tar=$1 work=$2 modules=$3 image=$4 size=$5 inodes=$6 mkfs=$7
root=$work/root
trap 'rm -rf "$root"' EXIT
mkdir -m 755 "$root"
tar -C "$root" --exclude='./dev/*' --numeric-owner -xpf "$tar"
rm "$tar"
mkdir -p "$root/usr/lib/modules" "$root/etc/stormcell"
cp -r "$modules" "$root/usr/lib/modules/"
echo stormcell >"$root/etc/hostname"
printf '127.0.0.1 localhost stormcell\n::1 localhost\n' >"$root/etc/hosts"
# there is no way out: a resolver that refuses at once beats one that never answers
echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
: >"$root/etc/machine-id"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/etc/apt/sources.list*
used=$(find "$root" | wc -l)
[ "$inodes" = auto ] && inodes=$((used * 12 / 10 + 16384))
"$mkfs" -q -F -L stormcell -N "$inodes" -d "$root" "$image" "$((size / 1024))k"
"""


@dataclass(frozen=True)
class ImageSpec:
    """All that an image is a function of, beside the packages' versions on the day it is built."""

    suite: str
    packages: tuple[str, ...]
    kernel: Kernel
    size: int
    inodes: int | None

    @classmethod
    def of(cls, packages: tuple[str, ...], kernel: Kernel, size: int, inodes: int | None) -> ImageSpec:
        """With the host's Debian release and the packages that every guest has."""
        return cls(host_suite(), tuple(sorted({*BASE_PACKAGES, *packages})), kernel, size, inodes)

    @property
    def digest(self) -> str:
        """Of the inputs (sha256, hex)."""
        parts = [FORMAT, SCRIPT, EXCLUDED, self.suite, self.packages, self.kernel.digest, self.size, self.inodes]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def image_path(home: Home, spec: ImageSpec) -> Path:
    """Where the image of this spec is or will be."""
    return home.rootfs / spec.digest / "root.img"


def image_ready(home: Home, spec: ImageSpec) -> bool:
    """Whether it is there and whole."""
    try:
        verify_files(image_path(home, spec).parent)
    except TemplateBroken:
        return False
    return True


async def ensure_image(home: Home, spec: ImageSpec, say: Callable[[str], None]) -> Path:
    """The image, built when it is not there. Two that build the same at once share one build.

    Raises HostError (MissingTool, NoPermission, NoSpace) before anything is built, BuildFailed.
    """
    if image_ready(home, spec):
        return image_path(home, spec)
    private_folder(home.rootfs)
    name = home.rootfs / f"{spec.digest}.lock"
    async with awaited_lock(name, lambda: say("waiting for another build of the same image")):
        if not image_ready(home, spec):
            await _build(home, spec, say)
    return image_path(home, spec)


async def _build(home: Home, spec: ImageSpec, say: Callable[[str], None]) -> None:
    check_namespace()
    for program, package in (("mmdebstrap", "mmdebstrap"), ("mkfs.ext4", "e2fsprogs"), ("tar", "tar")):
        tool(program, package)
    check_room(home.rootfs, ROOM)
    check_room(Path(os.environ.get("TMPDIR", "/tmp")), ROOM // 2)  # mmdebstrap unpacks there
    work, final = home.rootfs / f"{spec.digest}.new", image_path(home, spec).parent
    remove_tree(work)
    work.mkdir(mode=0o700)
    try:
        sources = debian_sources(spec.suite)
        await _debstrap(spec, sources, work / "root.tar", say)
        say("making the disk image")
        new = work / "image"
        new.mkdir(mode=0o700)
        await _make_disk(spec, work, new / "root.img")
        write_manifest(new, {"suite": spec.suite, "packages": list(spec.packages), "kernel": spec.kernel.package})
        remove_tree(final)
        publish(new, final)
    finally:
        remove_tree(work)


async def _debstrap(spec: ImageSpec, sources: str, tar: Path, say: Callable[[str], None]) -> None:
    say(f"installing {len(spec.packages)} packages and what they need")
    argv = own_mounts([str(tool("mmdebstrap", "mmdebstrap")), "--variant=minbase", "--format=tar"])
    argv += [f"--include={','.join(spec.packages)}"]
    argv += [f"--aptopt={option}" for option in apt_options()]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    argv += [spec.suite, "-", "-"]
    with tar.open("wb") as output:
        status, words = await run(argv, say_from_mmdebstrap(say), stdin=sources.encode(), stdout=output.fileno())
    if status:
        raise BuildFailed("the packages cannot be installed", where="mmdebstrap", detail=words, remedy=_remedy(words))


def _remedy(words: str) -> str:
    if match := re.search(r"Unable to locate package (\S+)|Package '(\S+)' has no installation candidate", words):
        return f"is '{match[1] or match[2]}' the name of a package of this Debian release? see `apt-cache policy`"
    return "is this machine online, and do its apt sources work (`apt-get update`)?"


def say_from_mmdebstrap(say: Callable[[str], None]) -> Callable[[str], None]:
    """Its own notices, one a stage."""

    def line(text: str) -> None:
        if text.startswith("I: "):
            say(text[3:].rstrip(".").strip())

    return line


async def _make_disk(spec: ImageSpec, work: Path, image: Path) -> None:
    inodes = "auto" if spec.inodes is None else str(spec.inodes)
    mkfs = tool("mkfs.ext4", "e2fsprogs")
    arguments: list[str | Path] = [work / "root.tar", work, spec.kernel.modules, image, str(spec.size), inodes, mkfs]
    status, words = await run(as_root(["/bin/sh", "-c", SCRIPT, "image", *arguments]), lambda _: None)
    if status:
        full = "Could not allocate" in words or "No space left" in words
        raise BuildFailed(
            "the disk image cannot be made",
            where="mkfs.ext4",
            detail=words,
            remedy="the packages do not fit: give the recipe a larger disk (or more inodes)" if full else "",
        )


async def run(
    argv: Sequence[str | Path], line: Callable[[str], None], *, stdin: bytes = b"", stdout: int | None = None
) -> tuple[int, str]:
    """Run a program in a process group of its own; its status and the last lines of its standard error.

    When we are cancelled, or after LIMIT_S, the group gets SIGTERM (mmdebstrap then removes its tree), later SIGKILL.
    When we are killed, the kernel tells the guard, and the guard does the same.
    """
    argv = [
        str(tool("setpriv", "util-linux")),
        "--pdeathsig",
        "TERM",
        "--",
        "/bin/sh",
        "-c",
        GUARD,
        "guard",
        *map(str, argv),
    ]
    words: list[str] = []

    def hear(text: str) -> None:
        line(text)
        words[:] = [*words[-39:], text[:500]]

    # a file, not a pipe: a program whose reader was killed would die of its next word, before it has cleaned up
    with tempfile.TemporaryFile() as said:
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=null if stdout is None else stdout,
            stderr=said,
            start_new_session=True,
        )
        assert process.stdin is not None
        ended = asyncio.ensure_future(process.wait())
        follow = _Follower(said.fileno(), hear)
        try:
            async with asyncio.timeout(LIMIT_S):
                process.stdin.write(stdin)
                process.stdin.close()
                while not ended.done():
                    await asyncio.wait({ended}, timeout=0.1)
                    follow.read()
                follow.end()
                return await ended, "\n".join(words)
        except TimeoutError:
            return -1, "\n".join([*words, f"it did not end within {LIMIT_S:g} s"])
        finally:
            if process.returncode is None:
                await _end_group(process)


class _Follower:
    """Reads a file that another process appends to, line by line."""

    def __init__(self, fd: int, hear: Callable[[str], None]) -> None:
        self._fd = fd
        self._hear = hear
        self._at = 0
        self._rest = b""

    def read(self) -> None:
        """Tell the whole lines that came since."""
        while piece := os.pread(self._fd, 1 << 16, self._at):
            self._at += len(piece)
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for raw in lines:
                self._hear(raw.decode(errors="replace").rstrip())

    def end(self) -> None:
        """And the last one, if it was cut short."""
        self.read()
        if self._rest:
            self._hear(self._rest.decode(errors="replace"))


async def _end_group(process: asyncio.subprocess.Process) -> None:
    for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)  # its leader is not reaped yet, so the group is still its own
            async with asyncio.timeout(patience):
                await process.wait()
            return
        except (ProcessLookupError, TimeoutError):
            continue
