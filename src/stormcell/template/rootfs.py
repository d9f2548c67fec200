"""From the packages' tar to a root file system: the same bytes of the same contents, whoever makes it, where and when.

EPOCH is the time of all that a build makes. What a package brings keeps its own, for Python compares it.

What mkfs.ext4 would take from the moment is given to it: identifiers, times, defaults of the host. What it takes from
the unpacked tree and cannot be told otherwise, when an inode was changed and read, is set in the finished image.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.host import tool
from stormcell.spec.epoch import EPOCH
from stormcell.spec.errors import BuildFailed
from stormcell.template.namespace import as_root
from stormcell.template.packages import installed
from stormcell.template.program import run

FIRST = "/etc/stormcell/first"
"""In the guest: a script that makes anew what packages made at random when they were installed. Not always there."""
MKFS = """[defaults]
base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
default_mntopts = acl,user_xattr
enable_periodic_fsck = 0
blocksize = 4096
inode_size = 256
[fs_types]
ext4 = {
features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
}
small = {
blocksize = 1024
}
"""
"""Debian 12's /etc/mke2fs.conf, as far as it matters here: the host's own may differ."""
SCRIPT = r"""
set -eu
umask 022
tar=$1 work=$2 modules=$3 image=$4 blocks=$5 inodes=$6 began=$7 epoch=$8 first=$9
shift 9
root=$work/root
trap 'rm -rf "$root"' EXIT
mkdir -m 755 "$root"
tar -C "$root" --exclude='./dev/*' --numeric-owner -xpf "$tar"
rm "$tar"
mkdir -p "$root/usr/lib/modules" "$root/etc/stormcell"
cp -r "$modules" "$root/usr/lib/modules/"
chmod -R u=rwX,go=rX "$root/usr/lib/modules"
# mmdebstrap copies the builder's, with their modes
rm -f "$root/etc/hostname" "$root/etc/resolv.conf"
echo stormcell >"$root/etc/hostname"
printf '127.0.0.1 localhost stormcell\n::1 localhost\n' >"$root/etc/hosts"
# there is no way out: a resolver that refuses at once beats one that never answers
echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
: >"$root/etc/machine-id"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/etc/apt/sources.list*
dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Status} ${Package}=${Version}\n' >"$work/installed"
# the day of the last change of a password
find "$root/etc" -maxdepth 1 -name 'shadow*' -exec sed -i -E "s/^([^:]*:[^:]*:)[0-9]+:/\1$((epoch / 86400)):/" {} +

later() { printf '%s\n' "$1" >>"$root$first"; }
if [ -e "$root/etc/ssl/private/ssl-cert-snakeoil.key" ]; then
  find "$root/etc/ssl/certs" -lname ssl-cert-snakeoil.pem -delete
  rm "$root/etc/ssl/private/ssl-cert-snakeoil.key" "$root/etc/ssl/certs/ssl-cert-snakeoil.pem"
  later 'make-ssl-cert generate-default-snakeoil'
fi
if [ -e "$root/etc/bind/rndc.key" ]; then
  rm "$root/etc/bind/rndc.key"
  later 'rndc-confgen -a -u bind && chmod 640 /etc/bind/rndc.key'
fi
if [ -e "$root/etc/ssh/ssh_host_ed25519_key" ]; then
  rm "$root"/etc/ssh/ssh_host_*
  later 'ssh-keygen -A'
fi
for cluster in "$root"/etc/postgresql/*/main; do
  [ -e "$cluster" ] || continue
  version=$(basename "$(dirname "$cluster")")
  rm -rf "$cluster" "$root/var/lib/postgresql/$version/main" "$root/var/log/postgresql/postgresql-$version-main.log"
  later "pg_createcluster $version main -- --no-sync"
done

find "$root" -newermt "@$((began - 1))" -exec touch -h -d "@$epoch" {} +
[ "$inodes" = auto ] && inodes=$(($(find "$root" | wc -l) * 12 / 10 + 16384))
"$@" -N "$inodes" -d "$root" "$image" "${blocks}k"
"""


@dataclass(frozen=True)
class Disk:
    """A root file system to be made in `work`, which holds `root.tar` of a build that began at `began` (Unix time).

    `name` is what its identifiers are made from; `size` is in bytes; without `inodes` there are some more than needed.
    """

    work: Path
    modules: Path
    name: str
    size: int
    inodes: int | None
    began: int


async def make_disk(disk: Disk, image: Path) -> Sequence[str]:
    """Write `image`; the installed packages as sorted `name=version`. Uses up the tar. Raises BuildFailed."""
    config = disk.work / "mke2fs.conf"
    config.write_text(MKFS)
    variables = {"MKE2FS_CONFIG": str(config), "E2FSPROGS_FAKE_TIME": str(EPOCH)}
    inodes = "auto" if disk.inodes is None else str(disk.inodes)
    arguments: list[str | Path] = [
        disk.work / "root.tar", disk.work, disk.modules, image, str(disk.size // 1024), inodes,
        str(disk.began), str(EPOCH), FIRST, tool("mkfs.ext4", "e2fsprogs"), *mkfs_options(disk.name),
    ]  # fmt: skip
    argv = as_root(["/bin/sh", "-c", SCRIPT, "image", *arguments])
    status, words = await run(argv, lambda _: None, variables=variables)
    if status:
        full = "Could not allocate" in words or "No space left" in words
        raise BuildFailed(
            "the disk image cannot be made",
            where="mkfs.ext4",
            detail=words,
            remedy="the packages do not fit: give the recipe a larger disk (or more inodes)" if full else "",
        )
    await _settle_times(disk.work / "times", image, variables)
    return installed((disk.work / "installed").read_text())


def mkfs_options(name: str) -> list[str]:
    """What mkfs.ext4 would make up, or ask the host's kernel and the folder's file system.

    The file is new, so what is not written is zero: neither mkfs nor the guest's kernel needs to zero inode tables.
    """
    space = uuid.uuid5(uuid.NAMESPACE_OID, name)
    seed = uuid.uuid5(space, "directory hash")
    extended = f"hash_seed={seed},nodiscard,assume_storage_prezeroed=1,no_copy_xattrs"
    return ["-q", "-F", "-L", "stormcell", "-U", str(space), "-E", extended]


async def _settle_times(script: Path, image: Path, variables: dict[str, str]) -> None:
    with image.open("rb") as file:
        file.seek(1024)
        script.write_text(time_script(file.read(1024)))
    argv: list[str | Path] = [tool("debugfs", "e2fsprogs"), "-w", "-f", script, image]
    status, words = await run(argv, lambda _: None, variables=variables)
    # it exits with 0 when a command fails; its version is all that it says otherwise
    if status or [line for line in words.splitlines() if not line.startswith("debugfs 1.")]:
        raise BuildFailed("the times of the disk image's files cannot be set", where="debugfs", detail=words)


def time_script(superblock: bytes) -> str:
    """Commands for debugfs: EPOCH as the time of reading and of change of every inode in use.

    mkfs.ext4 gives out inodes in their order, from s_first_ino on (Documentation/filesystems/ext4/super.rst).
    """
    inodes, free, first = struct.unpack_from("<I12xI64xI", superblock)
    fields = ("atime", "ctime")
    return "".join(f"sif <{inode}> {field} @{EPOCH}\n" for inode in range(first, inodes - free + 1) for field in fields)
