"""What this host brings: its QEMU, named by content, and the frequency of its time stamp counter."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import mmap
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stormcell.spec.errors import HostError, MissingTool

QEMU_NAME = "qemu-system-x86_64"


def tool(name: str, package: str) -> Path:
    """The path of a program, also where a user's PATH does not look (/usr/sbin). Raises MissingTool."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    if found is None:
        raise MissingTool(f"the program '{name}' is not installed", remedy=f"apt-get install {package}")
    return Path(found)


@dataclass(frozen=True)
class Qemu:
    """An emulator binary. A snapshot of one is not restored by another: `digest` tells them apart."""

    path: Path
    version: str
    digest: str


def find_qemu() -> Qemu:
    """The installed QEMU. Raises MissingTool, or HostError when it does not run."""
    path = tool(QEMU_NAME, "qemu-system-x86").resolve()
    about = path.stat()
    return _qemu(path, about.st_size, about.st_mtime_ns)


@functools.cache
def _qemu(path: Path, _size: int, _mtime_ns: int) -> Qemu:
    """Cached by size and time: a library in a long-lived process must notice an upgrade."""
    with path.open("rb") as binary:
        digest = hashlib.file_digest(binary, "sha256").hexdigest()
    return Qemu(path, _version(path), digest)


def _version(path: Path) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError("QEMU does not run", where=str(path), detail=str(error)) from error
    match = re.search(r"version (\S+)", done.stdout)
    if match is None:
        raise HostError("QEMU does not say its version", where=str(path), detail=done.stdout[:500])
    return match[1]


@functools.cache
def tsc_khz() -> int:
    """The frequency of the time stamp counter in kHz, measured over 20 ms.

    The kernel's own figure is not published, and "cpu MHz" follows the current clock on some hosts; an emulated
    guest's clock would then run at the wrong speed. Where no code page may be mapped, "cpu MHz" is what is left.
    """
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        match = re.search(r"^cpu MHz\s*: ([0-9.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        return round(float(match[1]) * 1000) if match else 2_000_000
    page.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))  # rdtsc; shl rdx,32; or rax,rdx; ret
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    t0, c0 = _quickest(read)
    time.sleep(0.02)
    t1, c1 = _quickest(read)
    return round((c1 - c0) * 1e6 / (t1 - t0))


def _quickest(read: Callable[[], int]) -> tuple[int, int]:
    """Time (ns) and counter at one moment, from the try that was interrupted least."""
    tries = []
    for _ in range(20):
        before, counter, after = time.monotonic_ns(), read(), time.monotonic_ns()
        tries.append((after - before, (before + after) // 2, counter))
    _, moment, counter = min(tries)
    return moment, counter


def kernel_release() -> str:
    """The host kernel's."""
    return os.uname().release
