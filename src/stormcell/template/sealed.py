"""The sealed variant of a template: the same recipe, provisioned in a machine that hears nothing while it runs.

So the snapshot is a function of the recipe, the kernel, the image, the initramfs and QEMU: built twice, also on two
hosts, its memory is equal to the bit, and `snapshot` is a name for it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stormcell.guest.sealed.mailbox import EXIT
from stormcell.machine.commands import Exit, not_started
from stormcell.machine.disk import writing
from stormcell.machine.durable import awaited_lock, check_room, publish
from stormcell.machine.sealed import memory
from stormcell.machine.sealed.argv import SealedSpec
from stormcell.machine.sealed.layout import Layout
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.spec.epoch import EPOCH
from stormcell.spec.errors import BuildFailed, MachineError, SandboxError, SpecError, TemplateBroken, TemplateError
from stormcell.spec.home import Home, private_folder
from stormcell.spec.recipe import Recipe
from stormcell.template.build import BOOT_S, CONSOLE_LINES, asked_for, clear_work, place, resolve
from stormcell.template.digest import Inputs, sealed_digest, sealed_inputs
from stormcell.template.image import image_path
from stormcell.template.manifest import read_manifest, verify_files, write_manifest
from stormcell.template.model import Progress, Stage
from stormcell.template.namespace import remove_tree
from stormcell.template.provision import KEPT, Done, Say, provision

FILE_TIME = EPOCH
"""As the guest's clock says at power-on: of the files that a recipe brings."""
BEYOND_S = 600.0
"""A command's time is the guest's; so much of the host's beyond it is a machine that stands."""


@dataclass(frozen=True)
class SealedTemplate:
    """Verified. `snapshot` names the memory's content; `inputs` are what it is a function of."""

    name: str
    digest: str
    snapshot: str
    folder: Path
    layout: Layout
    services: tuple[str, ...]
    inputs: Mapping[str, Any]
    manifest: Mapping[str, Any]

    @property
    def memory(self) -> Path:
        """Behind the machine's memory; never written again."""
        return self.folder / "memory"

    @property
    def state(self) -> Path:
        """The devices'."""
        return self.folder / "state"

    def spec(self, name: str, **changes: Any) -> SealedSpec:
        """A machine that goes on from it."""
        kernel, initrd = self.folder / "vmlinuz", self.folder / "initrd.cpio"
        return SealedSpec(name, self.layout, kernel, initrd, **{"memory": self.memory, **changes})


def _ignore(_: Progress) -> None:
    """Nobody watches."""


async def build_sealed(
    recipe: Recipe,
    *,
    home: Home | None = None,
    progress: Callable[[Progress], None] = _ignore,
    contents: dict[str, bytes] | None = None,
) -> SealedTemplate:
    """The sealed variant of this recipe: the one that is there if it matches and is whole, else a new one.

    `contents` are the recipe's files if they are not to be read where it says.

    Raises as `build` does, and SpecError for a recipe that no sealed machine can be made from.
    """
    home = home or Home.current()
    began = time.monotonic()

    def say(stage: Stage, text: str) -> None:
        progress(Progress(f"{recipe.name} (sealed)", stage, text, round(time.monotonic() - began, 3)))

    layout = _layout(recipe)
    inputs, initrd = await resolve(recipe, home, "tcg", say, contents)
    digest = sealed_digest(inputs, layout, image_path(home, inputs.image).parent)
    final = home.sealed / digest
    if (found := _existing(final)) is not None:
        asked_for(final)
        return found
    private_folder(home.sealed)
    name = home.sealed / f"{digest}.lock"
    async with awaited_lock(name, lambda: say("image", "waiting for another build of the same template")):
        if (found := _existing(final)) is None:
            await _build(inputs, layout, initrd, final, home, say, began)
            found = open_sealed(final)
            say("done", f"built {digest[:12]}, snapshot {found.snapshot[:12]}")
    return found


def open_sealed(folder: Path, *, full: bool = False) -> SealedTemplate:
    """Raises TemplateBroken. `full` reads every byte."""
    about = verify_files(folder, full=full)
    try:
        return SealedTemplate(
            name=str(about["name"]),
            digest=folder.name,
            snapshot=str(about["snapshot"]),
            folder=folder,
            layout=Layout(int(about["layout"]["memory"]), int(about["layout"]["disk_size"])),
            services=tuple(about["services"]),
            inputs=about["inputs"],
            manifest=about,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TemplateBroken(
            "its manifest is of another version of stormcell",
            where=str(folder),
            remedy="`stormcell template build --sealed` builds it again",
            detail=f"{type(error).__name__}: {error}",
        ) from error


def _existing(folder: Path) -> SealedTemplate | None:
    try:
        return open_sealed(folder)
    except TemplateError:
        return None


def _layout(recipe: Recipe) -> Layout:
    if recipe.vcpus != 1:
        raise SpecError(
            f"the template '{recipe.name}' has {recipe.vcpus} processors",
            where=str(recipe.source or recipe.name),
            rule="a sealed machine has one: with more, who runs first would not be the guest's alone to decide",
            remedy="give the template `vcpus: 1`, or run live",
        )
    try:
        return Layout(recipe.memory, recipe.disk.size)
    except SpecError as error:
        place = str(recipe.source or recipe.name)
        raise SpecError(error.what, where=place, rule=error.rule, remedy=error.remedy) from error


async def _build(inputs: Inputs, layout: Layout, initrd: Path, final: Path, home: Home, say: Say, began: float) -> None:
    work = final.with_name(f"{final.name}.new")
    check_room(home.sealed, layout.memory + (1 << 30))
    clear_work(work)
    work.mkdir(mode=0o700)
    try:
        new = work / "template"
        new.mkdir(mode=0o700)
        with writing("the kernel cannot be copied", new):
            shutil.copyfile(inputs.image.kernel.image, new / "vmlinuz")
            shutil.copyfile(initrd, new / "initrd.cpio")
        await asyncio.to_thread(memory.begin, new / "memory", layout, image_path(home, inputs.image))
        seconds = await _snapshot(inputs, layout, new, work / "run", say)
        await asyncio.to_thread(_publish, inputs, layout, new, final, home, (seconds, began))
    finally:
        remove_tree(work)


def _publish(inputs: Inputs, layout: Layout, new: Path, final: Path, home: Home, times: tuple[float, float]) -> None:
    guest_seconds, began = times
    recipe, image = inputs.recipe, image_path(home, inputs.image).parent
    about = {
        "name": recipe.name,
        "description": recipe.description,
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": str(recipe.source or ""),
        "services": [service.name for service in recipe.services],
        "packages": read_manifest(image)["installed"],
        "layout": {"memory": layout.memory, "disk_size": layout.disk_size},
        "snapshot": memory.digest(new / "memory"),
        "guest_seconds": guest_seconds,
        "build_seconds": round(time.monotonic() - began, 3),
        "inputs": sealed_inputs(inputs, layout, image),
    }
    write_manifest(new, about)
    remove_tree(final)
    publish(new, final)


async def _snapshot(inputs: Inputs, layout: Layout, new: Path, folder: Path, say: Say) -> float:
    """Boot, provision, save. How many seconds the guest lived."""
    recipe = inputs.recipe
    spec = SealedSpec(f"sealed-{recipe.name}", layout, new / "vmlinuz", new / "initrd.cpio", new / "memory", share=True)
    say("boot", "booting the guest (sealed)")
    machine = await SealedMachine.boot(spec, folder)
    try:
        guest = SealedGuest(machine)
        await guest.boot()
        await provision(guest, recipe, inputs.contents, say)
        say("snapshot", "saving the snapshot")
        await machine.stop()
        await machine.save(new / "state")
        return guest.now()
    except BuildFailed as error:
        detail = f"{error.detail.rstrip()}\n--- console\n{await machine.console(CONSOLE_LINES)}"
        raise BuildFailed(error.what, where=place(recipe, error.where), remedy=error.remedy, detail=detail) from error
    except (SandboxError, MachineError) as error:
        console = await machine.console(CONSOLE_LINES)
        raise BuildFailed(f"the guest is lost: {error.what}", where=recipe.name, detail=console) from error
    finally:
        try:
            await machine.kill()
        finally:
            await machine.close()


class SealedGuest:
    """The provisioner's hand in a sealed machine: each command is given while it stands still."""

    file_time = FILE_TIME

    def __init__(self, machine: SealedMachine) -> None:
        self._machine = machine

    async def boot(self) -> None:
        """Until it is ready to be told something. Raises MachineError."""
        await self._go(BOOT_S)

    async def _go(self, seconds: float) -> None:
        await self._machine.go(seconds)

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes | None = None) -> Done:
        """See provision.Guest."""
        text = (stdin or b"").decode("utf-8", "surrogateescape")
        self._machine.order({"op": "exec", "argv": list(argv), "timeout_s": timeout, "stdin": text})
        await self._go(timeout + BEYOND_S)
        *output, (kind, last) = self._machine.answer()
        ending: dict[str, Any] = json.loads(last) if kind == EXIT else {"error": {"message": "no end was told"}}
        if "error" in ending:
            raise not_started(ending)
        end = Exit(ending["exit_code"], ending["signal"], ending["timed_out"], left=ending["left"])
        return Done(end, b"".join(data for _, data in output)[-KEPT:])

    async def pause(self, seconds: float) -> None:
        """See provision.Guest."""
        await self.run(["sleep", f"{seconds:g}"], timeout=seconds + 10)

    def now(self) -> float:
        """See provision.Guest: the guest's own monotonic clock."""
        return self._machine.status_now().now_ns / 1e9

    async def sync(self) -> None:
        """See provision.Guest."""
        await self.run(["sync"], timeout=60)
