"""A recipe becomes a template: image, boot, provisioning, snapshot. Built aside, verified, then named."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from stormcell.machine import accel as acceleration
from stormcell.machine.channel import Channel
from stormcell.machine.disk import make_overlay
from stormcell.machine.durable import awaited_lock, check_room, publish
from stormcell.machine.host import find_qemu, tool
from stormcell.machine.initramfs import ensure_initramfs
from stormcell.machine.kernel import Kernel, ensure_kernel
from stormcell.machine.machine import Machine
from stormcell.machine.model import Accel, MachineSpec, Shape
from stormcell.machine.process import kill_and_wait, open_pidfd, read_identity
from stormcell.spec.errors import BuildFailed, SandboxError, TemplateError
from stormcell.spec.home import Home, private_folder
from stormcell.spec.recipe import MIB, Recipe
from stormcell.template.digest import Inputs
from stormcell.template.image import ImageSpec, ensure_image, image_path, image_ready
from stormcell.template.manifest import write_manifest
from stormcell.template.model import Progress, Stage, Template
from stormcell.template.namespace import remove_tree
from stormcell.template.provision import LiveGuest, Say, provision
from stormcell.template.store import Store

BOOT_S = 240.0
"""A boot takes 3-6 s under emulation, several times that on a host whose processors are all busy."""
CONSOLE_LINES = 100
"""Of a build that failed. A panic's call trace is 40 to 60 lines long, and its cause stands above it."""


def _ignore(_: Progress) -> None:
    """Nobody watches."""


async def build(
    recipe: Recipe,
    *,
    home: Home | None = None,
    accel: Accel | None = None,
    progress: Callable[[Progress], None] = _ignore,
) -> Template:
    """The template of this recipe: the one that is there if it matches and is whole, else a new one.

    Raises SpecError, HostError (also MissingTool, NoSpace, NoPermission) before anything is built, and BuildFailed with
    the console's tail or the output of the script that failed. A build that ends early leaves no template and no
    process; what a SIGKILL leaves is never used, and removed by the next build.
    """
    home = home or Home.current()
    began = time.monotonic()

    def say(stage: Stage, text: str) -> None:
        progress(Progress(recipe.name, stage, text, round(time.monotonic() - began, 3)))

    inputs, initrd = await resolve(recipe, home, accel, say)
    store = Store(home)
    if template := _existing(store, inputs.digest):
        store.remember(recipe.name, inputs.digest)
        asked_for(template.folder)
        return template
    private_folder(home.templates)
    name = home.templates / f"{inputs.digest}.lock"
    async with awaited_lock(name, lambda: say("image", "waiting for another build of the same template")):
        if _existing(store, inputs.digest) is None:
            await _build(inputs, initrd, home, say)
        template = store.open(inputs.digest)
        store.remember(recipe.name, inputs.digest)
    say("done", f"built {template.digest[:12]}")
    return template


def asked_for(folder: Path) -> None:
    """Note that somebody wanted the template now: it is not to go as one that nobody uses."""
    with contextlib.suppress(OSError):
        os.utime(folder)


def _existing(store: Store, digest: str) -> Template | None:
    """The template if it is whole. A broken one counts as none: the build replaces it."""
    try:
        return store.open(digest)
    except TemplateError:
        return None


async def resolve(
    recipe: Recipe, home: Home, accel: Accel | None, say: Say, contents: dict[str, bytes] | None = None
) -> tuple[Inputs, Path]:
    """All inputs, the image's included. Deciding on acceleration takes up to 20 s, the image 40 s: side by side."""
    contents = recipe.contents() if contents is None else contents
    qemu = find_qemu()
    tool("qemu-img", "qemu-utils")
    kernel = await asyncio.to_thread(ensure_kernel, home, lambda text: say("kernel", text))
    initrd = await asyncio.to_thread(ensure_initramfs, home, kernel)
    image = ImageSpec.of(recipe.packages, kernel, recipe.disk.size, recipe.disk.inodes)
    decided = accel or _known_accel(home, kernel)
    if decided is None or not image_ready(home, image):
        try:
            async with asyncio.TaskGroup() as tasks:
                trial = None
                if decided is None:
                    say("accel", f"trying whether KVM starts a guest (at most {acceleration.DEADLINE_S:g} s)")
                    trial = tasks.create_task(acceleration.choose(home, kernel))
                tasks.create_task(ensure_image(home, image, lambda text: say("image", text)))
            if trial is not None:
                say("accel", trial.result().reason)
                decided = trial.result().accel
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
    assert decided is not None
    shape = Shape(recipe.memory // MIB, recipe.vcpus, decided)
    return Inputs(recipe, contents, image, initrd.stem, qemu, shape), initrd


def _known_accel(home: Home, kernel: Kernel) -> Accel | None:
    choice = acceleration.forced() or acceleration.refused_at_once() or acceleration.remembered(home, kernel)
    return choice.accel if choice else None


async def _build(inputs: Inputs, initrd: Path, home: Home, say: Say) -> None:
    final = home.templates / inputs.digest
    work = final.with_name(f"{inputs.digest}.new")
    check_room(home.templates, inputs.recipe.memory + (2 << 30))
    clear_work(work)
    work.mkdir(mode=0o700)
    try:
        new = work / "template"
        new.mkdir(mode=0o700)
        shutil.copyfile(inputs.image.kernel.image, new / "vmlinuz")
        shutil.copyfile(initrd, new / "initrd.cpio")
        size = inputs.recipe.disk.size
        make_overlay(new / "disk.qcow2", image_path(home, inputs.image), "raw", size=size)
        clock = await _snapshot(inputs, new, work / "run", say)
        make_overlay(new / "overlay.qcow2", final / "disk.qcow2", "qcow2", size=size)
        await asyncio.to_thread(_publish, inputs, new, final, clock)
    finally:
        remove_tree(work)


def clear_work(work: Path) -> None:
    """Remove what a builder that was killed left, its machine included. Its lock is ours now: nobody builds there."""
    identity = read_identity(work / "run")
    machine = open_pidfd(identity) if identity else None
    if machine is not None:
        kill_and_wait(machine, 30)
        os.close(machine)
    remove_tree(work)


def _publish(inputs: Inputs, new: Path, final: Path, clock: int) -> None:
    recipe = inputs.recipe
    about = {
        "name": recipe.name,
        "description": recipe.description,
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": str(recipe.source or ""),
        "folder": str(final),
        "services": [service.name for service in recipe.services],
        "wall_clock_ns": clock,
        "inputs": inputs.as_dict(),
    }
    write_manifest(new, about)
    remove_tree(final)
    publish(new, final)


async def _snapshot(inputs: Inputs, new: Path, folder: Path, say: Say) -> int:
    """Boot, provision, save. What the guest's wall clock showed at the snapshot, in ns."""
    spec = MachineSpec(
        name=f"template-{inputs.recipe.name}",
        shape=inputs.shape,
        kernel=new / "vmlinuz",
        initrd=new / "initrd.cpio",
        disk=new / "disk.qcow2",
        memory=new / "memory",
        share=True,
    )
    say("boot", f"booting the guest ({inputs.shape.accel})")
    machine = await Machine.start(spec, folder)
    try:
        ahead = await _prepared(machine, inputs, say)
        say("snapshot", "saving the snapshot")
        return await machine.save_state(new / "state") + ahead
    finally:
        try:
            await machine.kill()
        finally:
            await machine.close()


async def _prepared(machine: Machine, inputs: Inputs, say: Say) -> int:
    """Provision. By how many ns the guest's wall clock is ahead of the host's."""
    try:
        async with await machine.channel() as channel:
            await channel.ready(BOOT_S)
            await provision(LiveGuest(channel), inputs.recipe, inputs.contents, say)
            return min([await _ahead(channel) for _ in range(5)])[1]
    except BuildFailed as error:
        console = await machine.console(CONSOLE_LINES)
        raise BuildFailed(
            error.what,
            where=place(inputs.recipe, error.where),
            remedy=error.remedy,
            detail=f"{error.detail.rstrip()}\n--- console\n{console}",
        ) from error
    except SandboxError as error:
        ended = await machine.wait_exit(1.0)
        why = f"the guest ended by itself ({ended.reason})" if ended else f"the guest is lost: {error.what}"
        raise BuildFailed(why, where=inputs.recipe.name, detail=await machine.console(CONSOLE_LINES)) from error


async def _ahead(channel: Channel) -> tuple[int, int]:
    """How long the question took, and the guest's clock against the host's half-way (both ns)."""
    asked = time.time_ns()
    shown = await channel.clock()
    took = time.time_ns() - asked
    return took, shown - asked - took // 2


def place(recipe: Recipe, part: str) -> str:
    """Where something failed."""
    return f"{recipe.source or recipe.name}: {part}"
