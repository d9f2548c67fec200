"""What a new sandbox goes on from: a template's snapshot, a running sandbox, a saved one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.disk import make_overlay
from stormcell.machine.model import Forward, MachineSpec
from stormcell.machine.pages import Pages
from stormcell.sandbox import layers
from stormcell.sandbox.record import Record
from stormcell.spec.errors import HostError
from stormcell.spec.home import Home
from stormcell.template.model import Template


@dataclass(frozen=True)
class Origin:
    """A moment of a machine.

    `since_ns` is what a wall clock showed then: the guest's is to step as far as that one has gone meanwhile.
    `memory` and `layers` are as in the record. `pages` differ from the memory file; when `filled`, none does, and the
    file had its bytes after machines had mapped it. `connected` are the agent ports
    that somebody was connected to.
    """

    template: Template
    state: Path
    overlay: Path
    since_ns: int
    memory: str = layers.TEMPLATE
    layers: tuple[str, ...] = ()
    pages: Pages | None = None
    filled: bool = False
    connected: tuple[int, ...] = ()
    forked: bool = False
    parent: str = ""
    snapshot: str = ""

    @classmethod
    def of_template(cls, template: Template) -> Origin:
        """The template's warmed snapshot."""
        return cls(template, template.state, template.overlay, template.wall_clock_ns)


def memory_file(memory: str, folder: Path, template: Template, home: Home) -> Path:
    """The file behind a sandbox's memory; an empty one of its own is made if it is missing."""
    if memory == layers.TEMPLATE:
        return template.memory
    if memory != layers.EMPTY:
        return layers.memory_of(home.state, memory)
    path = folder / "memory"
    if not path.exists():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.ftruncate(fd, template.shape.memory_mib << 20)
        os.close(fd)
    return path


def machine_spec(
    template: Template, folder: Path, home: Home, *, memory: str, forwards: tuple[Forward, ...], disk: str
) -> MachineSpec:
    """A machine with its memory and disk copy-on-write.

    A private map of an empty file is written to as well: its pages stay in memory and never go to the host's disk.
    """
    return MachineSpec(
        name=folder.name,
        shape=template.shape,
        kernel=template.kernel,
        initrd=template.initrd,
        disk=folder / disk,
        memory=memory_file(memory, folder, template, home),
        share=False,
        forwards=forwards,
    )


def next_disk(record: Record) -> str:
    """The name of the overlay that comes on top of the sandbox's disk."""
    stem = record.disk.removesuffix(".qcow2").partition(".")[2]
    return f"disk.{int(stem or 0) + 1}.qcow2"


def freeze_disk(active: Path, layer: Path) -> Path:
    """A second name for the disk that a machine writes to, and an empty overlay over that name, to be copied.

    Once the machine writes to an overlay instead, the layer's file is as it was at that moment, and it stays when the
    sandbox's folder goes. Raises HostError, NoSpace.
    """
    try:
        os.link(active, layer / layers.DISK)
    except OSError as error:
        raise HostError(
            f"the disk cannot be given a second name ({error.strerror})",
            where=str(layer),
            rule="forks and snapshots need hard links between the folders of STORMCELL_HOME",
            remedy="set STORMCELL_HOME to a file system that has them (ext4, xfs, btrfs, ...)",
        ) from error
    make_overlay(layer / layers.SEED, layer / layers.DISK, "qcow2", size=_virtual_size(active))
    return layer / layers.SEED


def _virtual_size(disk: Path) -> int:
    """From the header of a qcow2 file (docs/interop/qcow2.txt of QEMU: bytes 24 to 31, big-endian)."""
    with disk.open("rb") as file:
        return int.from_bytes(file.read(32)[24:], "big")
