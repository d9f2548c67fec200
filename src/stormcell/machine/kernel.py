"""The guest's kernel: Debian's cloud kernel as it comes, unpacked in the cache by an ordinary user.

The first one that was fetched stays until its folder is removed: a template must not go stale because the host's
package lists moved on.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.durable import aside, check_room, lock, publish, write_atomically
from stormcell.machine.host import tool
from stormcell.spec.errors import HostError
from stormcell.spec.home import Home, private_folder

META_PACKAGE = "linux-image-cloud-amd64"
DROPPED = re.compile(
    r"kernel/(arch/x86/kvm|virt|"
    r"drivers/(ata|comedi|cpufreq|cxl|hid|hv|infiniband|input|media|mfd|nvme|platform|power|powercap|scsi|soundwire|"
    r"target|uio|vfio|vhost|video|xen)|drivers/net/(ethernet|wwan|hyperv|vmxnet3|xen-netback)|"
    r"drivers/block/(aoe|drbd|rbd|xen.*)|fs/(ceph|orangefs)|net/(ceph|rds|vmw_vsock))[/.]"
)
"""Modules for hardware that a microVM never has. One that a kept module depends on is kept."""
ROOM = 1 << 29
"""Bytes for the package and the tree unpacked from it, several times over."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked guest kernel. `digest` is that of the Debian package (sha256, hex)."""

    folder: Path
    digest: str
    release: str
    package: str

    @property
    def image(self) -> Path:
        """The compressed kernel."""
        return self.folder / "vmlinuz"

    @property
    def modules(self) -> Path:
        """What becomes /lib/modules/RELEASE in the guest; modules.dep is there."""
        return self.folder / "lib" / "modules" / self.release


def cached_kernel(home: Home) -> Kernel | None:
    """The kernel that this home uses, if it is there already."""
    try:
        digest = (home.kernels / "current").read_text().strip()
        folder = home.kernels / digest
        about = json.loads((folder / "kernel.json").read_text())
        kernel = Kernel(folder, about["digest"], about["release"], about["package"])
    except (OSError, ValueError, KeyError):
        return None
    return kernel if kernel.image.is_file() and kernel.modules.is_dir() else None


def ensure_kernel(home: Home, say: Callable[[str], None] = lambda _: None) -> Kernel:
    """The cached kernel, or a new one from Debian.

    Raises NoSpace, MissingTool, HostError (apt's own words in `detail`).
    """
    if kernel := cached_kernel(home):
        return kernel
    private_folder(home.kernels)
    with lock(home.kernels / "lock"):
        if kernel := cached_kernel(home):
            return kernel
        check_room(home.kernels, ROOM)
        package = _concrete_package()
        say(f"fetching {package} from Debian")
        with aside(home.kernels / "new") as work:
            archive = _download(package, work)
            with archive.open("rb") as deb:
                digest = hashlib.file_digest(deb, "sha256").hexdigest()
            say(f"unpacking {package}")
            kernel = _unpack(archive, digest, package, work / "kernel", home.kernels / digest)
        write_atomically(home.kernels / "current", digest + "\n")
    return kernel


def _run(argv: list[str | Path], what: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{what}: no end within 10 minutes", where=str(argv[0])) from error
    if done.returncode:
        words = (done.stderr or done.stdout)[-4000:]
        raise HostError(
            what, where=str(argv[0]), remedy="is this machine online, and is `apt-get update` done?", detail=words
        )
    return done.stdout


def _concrete_package() -> str:
    show = _run(
        [tool("apt-cache", "apt"), "show", "--no-all-versions", META_PACKAGE], f"{META_PACKAGE} is not known to apt"
    )
    match = re.search(r"^Depends:.*?\b(linux-image-[0-9][^ ,]*)", show, re.MULTILINE)
    if match is None:
        raise HostError(
            f"{META_PACKAGE} names no kernel package", rule="the guest's kernel is Debian's", detail=show[:2000]
        )
    return match[1]


def _download(package: str, work: Path) -> Path:
    # as root, apt would download as the user _apt, who may not enter our private folder, and warn about it
    _run(
        [tool("apt-get", "apt"), "-o", "APT::Sandbox::User=root", "-qq", "download", package],
        "the kernel cannot be fetched",
        work,
    )
    return next(work.glob(f"{package}_*.deb"))


def _unpack(archive: Path, digest: str, package: str, new: Path, final: Path) -> Kernel:
    tree = new.with_name("tree")
    _run([tool("dpkg", "dpkg"), "-x", archive, tree], "the kernel package cannot be unpacked")
    (image,) = (tree / "boot").glob("vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    new.mkdir(mode=0o700)
    shutil.move(image, new / "vmlinuz")
    shutil.move(tree / "lib", new / "lib")
    modules = new / "lib" / "modules" / release
    depmod: list[str | Path] = [tool("depmod", "kmod"), "-b", new, release]
    _run(depmod, "depmod failed on the guest's modules")
    for path in sorted(_unwanted(dependencies(modules))):
        (modules / path).unlink()
    _run(depmod, "depmod failed on the guest's modules")
    about = {"digest": digest, "package": package, "release": release}
    write_atomically(new / "kernel.json", json.dumps(about, indent=2) + "\n")
    if final.exists():  # a broken one: cached_kernel refused it
        shutil.rmtree(final)
    publish(new, final)
    return Kernel(final, digest, release, package)


def dependencies(modules: Path) -> dict[str, list[str]]:
    """modules.dep: module -> all that it needs, nearest first; paths relative to /lib/modules/RELEASE."""
    table = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        name, _, needs = line.partition(":")
        table[name] = needs.split()
    return table


def _unwanted(table: dict[str, list[str]]) -> set[str]:
    wanted = {name for name in table if not DROPPED.match(name)}
    needed = {need for name in wanted for need in table[name]}
    return set(table) - wanted - needed


def load_order(table: dict[str, list[str]], names: list[str]) -> list[str]:
    """Module files in an order in which each finds what it needs. Raises HostError for a name that is not there."""
    by_name = {Path(path).name.partition(".")[0].replace("_", "-"): path for path in table}
    order: list[str] = []
    for name in names:
        path = by_name.get(name.replace("_", "-"))
        if path is None:
            raise HostError(f"the guest's kernel has no module '{name}'")
        order += [p for p in [*reversed(table[path]), path] if p not in order]
    return order
