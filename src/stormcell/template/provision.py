"""From a booted guest to a warm one: files in, setup, services, ready, warm."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stormcell.machine.channel import Channel
from stormcell.machine.commands import Exit, start_command
from stormcell.machine.console import visible
from stormcell.spec.errors import BuildFailed, StormcellError
from stormcell.spec.recipe import Recipe, Service, Volume
from stormcell.spec.units import duration_text
from stormcell.template.model import Stage
from stormcell.template.rootfs import FIRST

SERVICES = "/etc/stormcell/services.json"
VOLUMES = "/etc/stormcell/volumes.json"
SCRIPTS = "/run/stormcell/build"
KEPT = 32 * 1024
"""Bytes of a script's output that an error shows at most."""
ATTEMPT_S = 15.0
PAUSE_S = 0.25
LOGS = "tail -n 25 /run/stormcell/log/*.log 2>&1"
# the first run of each costs several times the later ones; the snapshot has paid for it
WARM_UP = (("/bin/true",), ("/bin/sh", "-c", "cat /proc/uptime >/dev/null"), ("stormcell-guest", "needs", "tc", "nft"))
Say = Callable[[Stage, str], None]


@dataclass(frozen=True)
class Done:
    """How a command ended, and the tail of its output."""

    exit: Exit
    output: bytes

    @property
    def ok(self) -> bool:
        """Exit code 0."""
        return self.exit.exit_code == 0

    @property
    def how(self) -> str:
        """For an error message."""
        if self.exit.timed_out:
            return "did not end in time"
        if self.exit.exit_code is not None:
            return f"ended with exit code {self.exit.exit_code}"
        return f"was killed by signal {self.exit.signal}"


class Guest(Protocol):
    """A booted guest that is being provisioned. Its methods raise SandboxError when it is lost."""

    file_time: int
    """Of the files that are written, in seconds since the epoch."""

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes | None = None) -> Done:
        """Run a command as root; its output (both streams as they come) is kept to the last KEPT bytes."""

    async def pause(self, seconds: float) -> None:
        """Wait."""

    def now(self) -> float:
        """Seconds, on the clock that deadlines are kept with."""

    async def sync(self) -> None:
        """Flush the guest's page cache to its disk."""


class LiveGuest:
    """Over a channel, on the host's clock."""

    def __init__(self, channel: Channel) -> None:
        self.file_time = int(time.time())
        self._channel = channel

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes | None = None) -> Done:
        """See Guest."""
        return await run(self._channel, argv, timeout=timeout, stdin=stdin)

    async def pause(self, seconds: float) -> None:
        """See Guest."""
        await asyncio.sleep(seconds)

    def now(self) -> float:
        """See Guest."""
        return time.monotonic()

    async def sync(self) -> None:
        """See Guest."""
        await self._channel.sync()


async def provision(guest: Guest, recipe: Recipe, contents: Mapping[str, bytes], say: Say) -> None:
    """Carry out the recipe. Raises BuildFailed with the output of what failed, SandboxError when the guest is lost."""
    await _make_anew(guest, say)
    say("files", f"writing {len(contents)} files" if contents else "writing the scripts")
    await _unpack(guest, [*_recipe_files(recipe, contents), *_scripts(recipe)])
    if recipe.volumes:
        await _make_volumes(guest, recipe.volumes, say)
    if recipe.setup:
        say("setup", "running the setup script")
        await _script(guest, "setup", recipe.setup_within)
    await _unpack(guest, [_entry(SERVICES, _services_json(recipe.services), 0o644, "root")])
    if recipe.services:
        say("services", f"starting {', '.join(service.name for service in recipe.services)}")
        await _start_services(guest, recipe.services)
    if recipe.ready:
        say("ready", f"waiting until it is ready (at most {duration_text(recipe.ready_within)})")
        await _until_ready(guest, recipe.ready_within)
    say("warm", "warming it up")
    if recipe.warm:
        await _script(guest, "warm", recipe.setup_within)
    for argv in WARM_UP:
        for _ in range(3):
            await guest.run(argv, timeout=60)
    await guest.run(["rm", "-rf", SCRIPTS], timeout=60)
    await guest.sync()


async def run(channel: Channel, argv: Sequence[str], *, timeout: float, stdin: bytes | None = None) -> Done:
    """Run a command as root; its output (both streams as they come) is kept to the last KEPT bytes."""
    command = await start_command(channel, argv, timeout=timeout, stdin=stdin is not None)
    kept = bytearray()

    async def collect(stream: AsyncIterator[bytes]) -> None:
        async for chunk in stream:
            kept.extend(chunk)
            del kept[:-KEPT]

    async def feed() -> None:
        if stdin is not None:
            await command.write_stdin(stdin)
            await command.close_stdin()

    try:
        async with asyncio.TaskGroup() as tasks:
            for work in (collect(command.stdout), collect(command.stderr), feed()):
                tasks.create_task(work)
    except BaseExceptionGroup as group:
        raise next((e for e in group.exceptions if isinstance(e, StormcellError)), group.exceptions[0]) from None
    return Done(await command.wait(), bytes(kept))


async def _make_anew(guest: Guest, say: Say) -> None:
    """Keys, certificates and databases that the packages' own scripts make; the image is free of them (rootfs.py)."""
    if not (await guest.run(["test", "-e", FIRST], timeout=60)).ok:
        return
    say("setup", "making the packages' keys and databases")
    done = await guest.run(["/bin/sh", "-ec", f". {FIRST}; rm {FIRST}"], timeout=600)
    if not done.ok:
        raise BuildFailed(f"a package's first setup {done.how}", where="packages", detail=visible(done.output))


async def _script(guest: Guest, name: str, timeout: float) -> None:
    done = await guest.run(["/bin/sh", f"{SCRIPTS}/{name}"], timeout=timeout)
    if not done.ok:
        raise BuildFailed(f"the recipe's `{name}` script {done.how}", where=name, detail=visible(done.output))


async def _make_volumes(guest: Guest, volumes: Sequence[Volume], say: Say) -> None:
    say("files", f"making {len(volumes)} volumes" if len(volumes) > 1 else f"making the volume {volumes[0].name}")
    entries = [volume.model_dump(mode="json", exclude_none=True) | {"size": volume.size} for volume in volumes]
    await _unpack(guest, [_entry(VOLUMES, json.dumps(entries, indent=1).encode(), 0o644, "root")])
    done = await guest.run(["stormcell-guest", "volume", "load"], timeout=300)
    if not done.ok:
        raise BuildFailed("a volume cannot be made", where="volumes", detail=visible(done.output))


async def _start_services(guest: Guest, services: Sequence[Service]) -> None:
    patience = sum(service.ready_within for service in services) + 120
    done = await guest.run(["stormcell-guest", "service", "load"], timeout=patience)
    if done.ok:
        return
    logs = await guest.run(["/bin/sh", "-c", LOGS], timeout=60)
    names = ", ".join(_not_running(done.output)) or "a service"
    raise BuildFailed(
        f"not running: {names}", where="services", detail=f"{visible(done.output)}\n{visible(logs.output)}"
    )


def _not_running(answer: bytes) -> list[str]:
    """Names and states from the supervisor's answer; nothing when it is not what was expected."""
    try:
        services = json.loads(answer)["services"]
        return [f"{name} ({entry['state']})" for name, entry in services.items() if entry["state"] != "running"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


async def _until_ready(guest: Guest, within: float) -> None:
    deadline = guest.now() + within
    while True:
        left = deadline - guest.now()
        done = await guest.run(["/bin/sh", f"{SCRIPTS}/ready"], timeout=min(max(left, 1.0), ATTEMPT_S))
        if done.ok:
            return
        if guest.now() >= deadline:
            logs = await guest.run(["/bin/sh", "-c", LOGS], timeout=60)
            raise BuildFailed(
                f"the guest was not ready within {duration_text(within)}; the last try {done.how}",
                where="ready",
                detail=f"{visible(done.output)}\n{visible(logs.output)}",
                remedy="mend `ready`, or give it more time with `ready_within`",
            )
        await guest.pause(PAUSE_S)


Entry = tuple[tarfile.TarInfo, bytes]


def _entry(path: str, content: bytes, mode: int, owner: str) -> Entry:
    about = tarfile.TarInfo(path.lstrip("/"))
    user, _, group = owner.partition(":")
    about.size, about.mode, about.uname, about.gname = len(content), mode, user, group or user
    return about, content


def _recipe_files(recipe: Recipe, contents: Mapping[str, bytes]) -> list[Entry]:
    return [_entry(file.path, contents[file.path], int(file.mode, 8), file.owner) for file in recipe.files]


def _scripts(recipe: Recipe) -> list[Entry]:
    texts = {"setup": recipe.setup, "ready": recipe.ready, "warm": recipe.warm}
    return [_entry(f"{SCRIPTS}/{name}", text.encode(), 0o600, "root") for name, text in texts.items()]


async def _unpack(guest: Guest, entries: Sequence[Entry]) -> None:
    """All files through one tar: a program started per file would take longer than the files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for about, content in entries:
            about.mtime = guest.file_time
            archive.addfile(about, io.BytesIO(content))
    done = await guest.run(["tar", "-C", "/", "-xpf", "-"], timeout=300, stdin=buffer.getvalue())
    if not done.ok:
        raise BuildFailed("the recipe's files cannot be written", where="files", detail=visible(done.output))


def _services_json(services: Sequence[Service]) -> bytes:
    """The list that the guest's supervisor reads at every boot."""
    entries = [
        {
            "name": service.name,
            "command": list(service.command),
            "user": service.user,
            "cwd": service.cwd,
            "env": service.env,
            "restart": service.restart,
            "restart_delay": service.restart_delay,
            "ready": service.ready,
            "ready_timeout": service.ready_within,
            "before": service.before,
        }
        for service in services
    ]
    return json.dumps(entries, indent=2).encode() + b"\n"
