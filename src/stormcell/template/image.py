"""The guest's root file system: Debian packages and kernel modules as a raw ext4 image, by root or anybody else."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.durable import awaited_lock, check_room, publish
from stormcell.machine.host import tool
from stormcell.machine.kernel import Kernel
from stormcell.spec.epoch import EPOCH
from stormcell.spec.errors import BuildFailed, TemplateBroken
from stormcell.spec.home import Home, private_folder
from stormcell.template.manifest import verify_files, write_manifest
from stormcell.template.namespace import check_namespace, own_mounts, remove_tree
from stormcell.template.program import run
from stormcell.template.rootfs import FIRST, MKFS, SCRIPT, Disk, make_disk, mkfs_options
from stormcell.template.sources import apt_options, debian_sources, host_suite

FORMAT = 2
"""Raised when the same inputs make another image."""
BASE_PACKAGES = (
    "e2fsprogs", "iproute2", "iputils-ping", "kmod", "libbpf1", "mount", "netbase", "nftables", "passwd", "procps",
    "python3", "util-linux",
)  # fmt: skip
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
MANUALS = (
    '--essential-hook=cd "$1/usr/share/man" && touch -r . .time && mkdir man1',
    '--customize-hook=cd "$1/usr/share/man" && t=@$(stat -c %Y .time) && rm .time && '
    '{ rmdir man1 2>/dev/null || :; } && { [ -n "$(ls -A)" ] || touch -d $t .; }',
)
"""While packages are installed there is the folder for the manual pages that are left out: update-alternatives links to
such a page even if it is not there, and a package fails without the folder (Debian bug 863199). Who did not need it
finds its image as it was, to the byte.
"""
ROOM = 3 << 30
"""Bytes for the tar, the unpacked tree and the image of a large recipe."""


@dataclass(frozen=True)
class ImageSpec:
    """All that an image's bytes are a function of, beside the packages' versions on the day it is built.

    (And beside the versions of the host's e2fsprogs and kmod, which lay it out.)
    """

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
        made = [FORMAT, SCRIPT, MKFS, mkfs_options(""), EPOCH, FIRST, EXCLUDED]
        parts = [*made, self.suite, self.packages, self.kernel.digest, self.size, self.inodes]
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
        began = int(time.time())
        await _debstrap(spec, sources, work / "root.tar", say)
        say("making the disk image")
        new = work / "image"
        new.mkdir(mode=0o700)
        disk = Disk(work, spec.kernel.modules, spec.digest, spec.size, spec.inodes, began)
        versions = await make_disk(disk, new / "root.img")
        about = {"suite": spec.suite, "packages": list(spec.packages), "kernel": spec.kernel.package}
        write_manifest(new, {**about, "installed": versions})
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
    argv += MANUALS
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
