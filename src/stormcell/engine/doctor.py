"""What this machine can do: every requirement on its own, with its reason and its remedy."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stormcell.machine.accel import DEADLINE_S, choose, forced, refused_at_once, remembered
from stormcell.machine.argv import SANDBOX
from stormcell.machine.host import find_qemu, tool
from stormcell.machine.initramfs import SEALED
from stormcell.machine.kernel import Kernel, dependencies, ensure_kernel
from stormcell.spec.errors import StormcellError
from stormcell.spec.home import Home

DISK_GIB = 6
"""Room for a kernel, one image, one template and a few sandboxes; measured: the orders template takes about 2.5 GiB."""
MEMORY_MIB = 1024
SEALED_GIB = 2
"""Room for a sealed template and an instant of it; measured: 0.5 GiB each of the base template, 1 GiB of orders'."""

TOOLS = (
    ("qemu-img", "qemu-utils", "makes disk overlays"),
    ("mmdebstrap", "mmdebstrap", "builds the guest's root file system"),
    ("mkfs.ext4", "e2fsprogs", "makes the guest's disk"),
    ("busybox", "busybox-static", "starts the guest's disk"),
    ("depmod", "kmod", "orders the guest's modules"),
    ("apt-get", "apt", "fetches the guest's kernel and packages"),
    ("dpkg", "dpkg", "unpacks the guest's kernel"),
)


@dataclass(frozen=True)
class Requirement:
    """One line. `met` None: not needed here, or only information."""

    name: str
    met: bool | None
    why: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def examine(
    home: Home, on_line: Callable[[Requirement], None], say: Callable[[str], None] = lambda _: None
) -> list[Requirement]:
    """Every requirement, told to `on_line` as it is known; `say` hears what takes longer than a moment."""
    found = []
    for requirement in _requirements(home, say):
        on_line(requirement)
        found.append(requirement)
    return found


def _requirements(home: Home, say: Callable[[str], None]) -> Iterator[Requirement]:
    yield _python()
    yield _qemu()
    yield _confinement()
    for program, package, purpose in TOOLS:
        yield _tool(program, package, purpose)
    yield _user_namespaces()
    yield _home(home)
    yield _disk(home)
    yield _memory()
    yield from _acceleration(home, say)


def _python() -> Requirement:
    version = ".".join(str(part) for part in sys.version_info[:3])
    met = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Requirement("python", met, f"{version} (3.11 to 3.13 are supported)", "" if met else "install python3.11")


def _qemu() -> Requirement:
    try:
        qemu = find_qemu()
    except StormcellError as error:
        return Requirement("qemu", False, error.what, error.remedy)
    met = _numbers(qemu.version) >= (7, 2)
    return Requirement("qemu", met, f"{qemu.version} (7.2 or newer)", "" if met else "install a newer qemu-system-x86")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _confinement() -> Requirement:
    name = "confinement"
    try:
        qemu = find_qemu()
        # fmt: off
        asked = [str(qemu.path), "-sandbox", SANDBOX, "-M", "none", "-nodefaults", "-display", "none",
                 "-monitor", "stdio"]
        # fmt: on
        done = subprocess.run(asked, input="quit\n", capture_output=True, text=True, timeout=30, check=False)
    except (StormcellError, OSError, subprocess.SubprocessError) as error:
        return Requirement(name, False, f"cannot be tried ({str(error).splitlines()[0]})", "install qemu-system-x86")
    if done.returncode != 0:
        return Requirement(name, False, done.stderr.strip()[:200], "use a QEMU built with seccomp")
    return Requirement(name, True, "QEMU has its seccomp filter: no new processes, privileges or resource limits")


def _tool(program: str, package: str, purpose: str) -> Requirement:
    try:
        return Requirement(program, True, f"{tool(program, package)} {purpose}")
    except StormcellError as error:
        return Requirement(program, False, f"{error.what}; it {purpose}", error.remedy)


def _user_namespaces() -> Requirement:
    name = "user namespaces"
    if os.geteuid() == 0:
        return Requirement(name, None, "not needed as root")
    user = pwd.getpwuid(os.geteuid()).pw_name if _known_user() else str(os.geteuid())
    if shutil.which("newuidmap") is None:
        return Requirement(name, False, "newuidmap is missing", "apt-get install uidmap")
    for file in (Path("/etc/subuid"), Path("/etc/subgid")):
        lines = file.read_text().splitlines() if file.exists() else []
        if not any(line.split(":")[0] in (user, str(os.geteuid())) for line in lines):
            remedy = f"as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
            return Requirement(name, False, f"{user} has no line in {file}", remedy)
    done = subprocess.run(["unshare", "--map-root-user", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Requirement(name, False, done.stderr.strip(), "as root: sysctl kernel.unprivileged_userns_clone=1")
    return Requirement(name, True, f"{user} may build guest images without root")


def _known_user() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def _home(home: Home) -> Requirement:
    for folder in (home.state, home.cache):
        existing = _existing(folder)
        if not os.access(existing, os.W_OK | os.X_OK):
            return Requirement(
                "home", False, f"{existing} may not be written to", "set STORMCELL_HOME to another folder"
            )
    return Requirement("home", True, f"state in {home.state}, cache in {home.cache}")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _disk(home: Home) -> Requirement:
    folder = _existing(home.cache)
    free = shutil.disk_usage(folder).free / 2**30
    met = free >= DISK_GIB
    return Requirement("disk", met, f"{free:.1f} GiB free at {folder} ({DISK_GIB} wanted)", "" if met else "make room")


def _memory() -> Requirement:
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next((int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")), 0)
    met = available >= MEMORY_MIB
    return Requirement(
        "memory", met, f"{available} MiB available ({MEMORY_MIB} wanted)", "" if met else "end other programs"
    )


def _sealed(home: Home, kernel: Kernel | None) -> Requirement:
    """What `run --sealed` needs beyond the rest; the first thing that is missing."""
    name = "sealed runs"
    try:
        asked = [str(find_qemu().path), "-accel", "help"]
        known = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False).stdout.split()
        setpriv = [str(tool("setpriv", "util-linux")), "--pdeathsig", "KILL", "true"]
        done = subprocess.run(setpriv, capture_output=True, text=True, timeout=30, check=False)
    except (StormcellError, OSError, subprocess.SubprocessError) as error:
        remedy = error.remedy if isinstance(error, StormcellError) else ""
        return Requirement(name, False, str(error).splitlines()[0], remedy or "install qemu-system-x86 and util-linux")
    if "tcg" not in known:
        return Requirement(name, False, "QEMU cannot emulate (no tcg)", "install Debian's qemu-system-x86")
    if done.returncode != 0:
        why = f"setpriv cannot tie QEMU's life to ours: {done.stderr.strip()[:200]}"
        return Requirement(name, False, why, "install util-linux 2.33 or newer")
    if kernel is None:
        return Requirement(name, False, "cannot be told without a guest kernel", "see the line of the guest kernel")
    here = {Path(path).name.split(".")[0].replace("-", "_") for path in dependencies(kernel.modules)}
    if missing := [module for module in SEALED if module not in here]:
        why = f"the guest's kernel {kernel.release} has no module {' and no '.join(missing)}"
        return Requirement(name, False, why, "use Debian's linux-image-amd64 for the guest")
    free = shutil.disk_usage(_existing(home.cache)).free / 2**30
    if free < SEALED_GIB:
        return Requirement(name, False, f"{free:.1f} GiB are free, {SEALED_GIB} are wanted", "make room")
    return Requirement(name, True, f"QEMU emulates, setpriv works, the guest has {' and '.join(SEALED)}, there is room")


def _acceleration(home: Home, say: Callable[[str], None]) -> Iterator[Requirement]:
    try:
        kernel = ensure_kernel(home, say)
    except StormcellError as error:
        yield Requirement("guest kernel", False, error.what, error.remedy or "check the apt sources of this machine")
        yield Requirement("acceleration", False, "cannot be tried without a guest kernel")
        yield _sealed(home, None)
        return
    yield Requirement("guest kernel", True, f"Debian's {kernel.release}")
    yield _sealed(home, kernel)
    try:
        if not (forced() or refused_at_once() or remembered(home, kernel)):
            say(f"starting a tiny guest to decide acceleration (at most {DEADLINE_S:g} s)")
        choice = asyncio.run(choose(home, kernel))
    except StormcellError as error:
        yield Requirement("acceleration", False, error.what, error.remedy)
        return
    yield Requirement("acceleration", True, choice.reason, choice.remedy)
