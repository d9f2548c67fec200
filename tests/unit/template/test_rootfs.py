import asyncio
import io
import os
import re
import struct
import subprocess
import tarfile
import time
import uuid

import pytest

from stormcell.machine.host import tool
from stormcell.spec.epoch import EPOCH
from stormcell.spec.errors import BuildFailed, NoPermission
from stormcell.template import program
from stormcell.template.namespace import check_namespace
from stormcell.template.rootfs import FIRST, Disk, make_disk, mkfs_options, time_script

STATUS = """\
Package: {}
Status: install ok installed
Architecture: all
Maintainer: nobody
Version: {}
Description: none

"""
OLD = 1_700_000_000
"""The time of a file as its package brought it."""
FILES = {
    "./etc/hostname": b"the builder's\n",
    "./etc/shadow": b"root:*:{day}:0:99999:7:::\ngames:!:{day}:0:99999:7:::\n",
    "./etc/ssl/private/ssl-cert-snakeoil.key": b"of {day}",
    "./etc/ssl/certs/ssl-cert-snakeoil.pem": b"of {day}",
    "./etc/bind/rndc.key": b"of {day}",
    "./etc/postgresql/15/main/postgresql.conf": b"",
    "./var/lib/postgresql/15/main/global/pg_control": b"of {day}",
    "./var/lib/dpkg/status": (STATUS.format("zlib", "1:2-3") + STATUS.format("apt", "2.6.1")).encode(),
    "./usr/bin/old": b"#!/bin/sh\n",
    "./usr/share/large": b"\0" * 100_000 + b"x",
}
OLDER = {"./usr/bin/old", "./usr/share/large"}


@pytest.fixture
def small_tree(tmp_path):
    """A maker of images of one small tree, unpacked in another order and at another time whenever it is asked."""
    try:
        check_namespace()
    except NoPermission as error:
        pytest.skip(str(error))
    modules = tmp_path / "6.1.0"
    modules.mkdir()
    (modules / "modules.dep").write_text("kernel/fs/x.ko:\n")

    def make(name, size=64 << 20):
        began = int(time.time())
        (modules / "modules.dep").chmod(0o600 if name > "m" else 0o644)
        work = tmp_path / name
        work.mkdir(mode=0o700)
        with tarfile.open(work / "root.tar", "w") as tar:
            for path in sorted(FILES, reverse=name > "m"):
                about = tarfile.TarInfo(path)
                content = FILES[path].replace(
                    b"{day}", name.encode() if FILES[path] == b"of {day}" else b"%d" % (began % 10_000)
                )
                about.size, about.mtime = len(content), OLD if path in OLDER else began
                about.uid, about.gid, about.mode = 33, 44, 0o640
                if path == "./etc/hostname":  # mmdebstrap copies the builder's, with its mode
                    about.mode = 0o755 if name > "m" else 0o600
                tar.addfile(about, io.BytesIO(content))
            link = tarfile.TarInfo("./etc/ssl/certs/1234abcd.0")
            link.type, link.linkname, link.mtime = tarfile.SYMTYPE, "ssl-cert-snakeoil.pem", began
            tar.addfile(link)
        image = work / "root.img"
        return image, asyncio.run(make_disk(Disk(work, modules, "some recipe", size, None, began), image))

    return make


def debugfs(image, command):
    return subprocess.run(
        [tool("debugfs", "e2fsprogs"), "-R", command, image], check=True, capture_output=True, text=True
    ).stdout


def test_the_same_contents_make_the_same_bytes(small_tree, monkeypatch):
    image, versions = small_tree("first")
    assert versions == ["apt=2.6.1", "zlib=1:2-3"]
    time.sleep(1.1)  # an inode's times count in seconds
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("MKE2FS_CONFIG", "/dev/null")
    mask = os.umask(0o077)
    try:
        again, _ = small_tree("second")
    finally:
        os.umask(mask)
    assert image.read_bytes() == again.read_bytes()


def test_the_defaults_of_the_hosts_mkfs_are_not_taken(small_tree, tmp_path, monkeypatch):
    image, _ = small_tree("first")
    hostile = tmp_path / "mke2fs.conf"
    hostile.write_text("[defaults]\nblocksize = 1024\ninode_size = 128\nbase_features = filetype\n")
    monkeypatch.setenv("MKE2FS_CONFIG", str(hostile))
    monkeypatch.setattr(program, "PASSED", {*program.PASSED, "MKE2FS_CONFIG"})  # as if it were in the host's /etc
    time.sleep(1.1)
    again, _ = small_tree("second")
    assert image.read_bytes() == again.read_bytes()


def test_an_image_is_clean_and_sparse_and_has_no_time_of_its_build(small_tree):
    image, _ = small_tree("one")
    checked = subprocess.run([tool("e2fsck", "e2fsprogs"), "-f", "-n", image], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert image.stat().st_size == 64 << 20 and image.stat().st_blocks * 512 < 8 << 20
    times = {"ctime", "atime", "mtime", "crtime"}
    for path in ("/", "/etc/hostname", "/etc/shadow", "/usr/lib/modules/6.1.0/modules.dep", "/lost+found", "<8>"):
        found = dict(re.findall(r"(\wtime|crtime): 0x([0-9a-f]+)", debugfs(image, f"stat {path}")))
        assert found == dict.fromkeys(times, f"{EPOCH:x}"), path
    old = dict(re.findall(r"(\wtime|crtime): 0x([0-9a-f]+)", debugfs(image, "stat /usr/bin/old")))
    assert old == {**dict.fromkeys(times, f"{EPOCH:x}"), "mtime": f"{OLD:x}"}
    assert f"{EPOCH // 86400}:0:99999" in debugfs(image, "cat /etc/shadow")


def test_what_packages_make_at_random_is_left_to_the_guest(small_tree):
    image, _ = small_tree("one")
    assert debugfs(image, f"cat {FIRST}").splitlines() == [
        "make-ssl-cert generate-default-snakeoil",
        "rndc-confgen -a -u bind && chmod 640 /etc/bind/rndc.key",
        "pg_createcluster 15 main -- --no-sync",
    ]
    for folder in ("/etc/bind", "/etc/ssl/private", "/etc/ssl/certs", "/etc/postgresql/15", "/var/lib/postgresql/15"):
        names = [line.split("/")[5] for line in debugfs(image, f"ls -p {folder}").splitlines() if line]
        assert names == [".", ".."], folder


def test_a_tree_that_does_not_fit_is_said_with_the_remedy(small_tree, monkeypatch):
    monkeypatch.setitem(FILES, "./usr/share/random", os.urandom(8 << 20))
    with pytest.raises(BuildFailed) as caught:
        small_tree("one", size=8 << 20)
    assert "larger disk" in caught.value.remedy


def test_identifiers_are_made_from_the_name():
    one, same, other = mkfs_options("a"), mkfs_options("a"), mkfs_options("b")
    assert one == same
    identifiers = [re.findall(r"[0-9a-f-]{36}", " ".join(options)) for options in (one, other)]
    assert len({uuid.UUID(each) for pair in identifiers for each in pair}) == 4


def test_times_are_set_of_every_inode_that_is_in_use():
    superblock = bytearray(1024)
    struct.pack_into("<I", superblock, 0x0, 100)  # s_inodes_count
    struct.pack_into("<I", superblock, 0x10, 87)  # s_free_inodes_count
    struct.pack_into("<I", superblock, 0x54, 11)  # s_first_ino
    assert time_script(bytes(superblock)).splitlines() == [
        f"sif <{inode}> {field} @{EPOCH}" for inode in (11, 12, 13) for field in ("atime", "ctime")
    ]
