"""Sandbox: the twin of AsyncSandbox for those who call without `await`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self, overload

from stormcell.machine.commands import Exit
from stormcell.machine.files import Entry, Stat
from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.sandbox.bridge import Bridge
from stormcell.sandbox.evidence import KillEvidence
from stormcell.sandbox.execution import OnOutput
from stormcell.sandbox.filesystem import MAX_WHOLE, AsyncFilesystem, GuestPath, Target
from stormcell.sandbox.results import ExecResult
from stormcell.sandbox.running import AsyncCommand
from stormcell.sandbox.snapshots import Snapshot
from stormcell.sandbox.templates import OnProgress
from stormcell.template.model import Template


class Sandbox:
    """A microVM made from a template. What AsyncSandbox says holds here too; each call returns when it is done.

    May be used from several threads. Handlers of output are called in the thread that called `exec`.
    """

    def __init__(self, twin: AsyncSandbox) -> None:
        self._twin = twin
        self.id = twin.id
        self.folder = twin.folder
        self.ports = twin.ports
        self.orphans = twin.orphans
        self.filesystem = Filesystem(twin.filesystem)

    @classmethod
    def create(
        cls,
        template: str | Template = "base",
        *,
        ttl_seconds: float = 300,
        metadata: Mapping[str, str] | None = None,
        open_ports: Mapping[str, int] | None = None,
        raw: bool = False,
        detached: bool = False,
        progress: OnProgress | None = None,
    ) -> Self:
        """See AsyncSandbox.create."""
        return cls(
            Bridge.current().run(
                AsyncSandbox.create(
                    template,
                    ttl_seconds=ttl_seconds,
                    metadata=metadata,
                    open_ports=open_ports,
                    raw=raw,
                    detached=detached,
                    progress=progress,
                )
            )
        )

    @classmethod
    def attach(cls, sandbox: str) -> Self:
        """See AsyncSandbox.attach."""
        return cls(Bridge.current().run(AsyncSandbox.attach(sandbox)))

    @classmethod
    def restore(
        cls,
        snapshot: str,
        *,
        ttl_seconds: float = 300,
        metadata: Mapping[str, str] | None = None,
        raw: bool = False,
        detached: bool = False,
    ) -> Self:
        """See AsyncSandbox.restore."""
        work = AsyncSandbox.restore(snapshot, ttl_seconds=ttl_seconds, metadata=metadata, raw=raw, detached=detached)
        return cls(Bridge.current().run(work))

    def snapshot(self, name: str, *, metadata: Mapping[str, str] | None = None) -> Snapshot:
        """See AsyncSandbox.snapshot."""
        return Bridge.current().run(self._twin.snapshot(name, metadata=metadata))

    @overload
    def fork(
        self,
        count: None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        raw: bool = False,
        detached: bool = False,
    ) -> Self: ...

    @overload
    def fork(
        self,
        count: int,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        raw: bool = False,
        detached: bool = False,
    ) -> list[Self]: ...

    def fork(
        self,
        count: int | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        raw: bool = False,
        detached: bool = False,
    ) -> Self | list[Self]:
        """See AsyncSandbox.fork."""
        number = 1 if count is None else count
        twins = Bridge.current().run(
            self._twin.fork(number, metadata=metadata, ttl_seconds=ttl_seconds, raw=raw, detached=detached)
        )
        children = [type(self)(twin) for twin in twins]
        return children[0] if count is None else children

    def exec(
        self,
        command: str | Sequence[str | bytes],
        *,
        cwd: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Iterable[bytes] | None = None,
        user: str | None = None,
        timeout: float = 300.0,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        capture: bool = True,
        max_output: int | None = None,
        check: bool = False,
    ) -> ExecResult:
        """See AsyncSandbox.exec. An iterable `stdin` is advanced in another thread."""
        return Bridge.current().run_with_callbacks(
            lambda relay: self._twin.exec(
                command,
                cwd=cwd,
                env=env,
                stdin=stdin,
                user=user,
                timeout=timeout,
                on_stdout=relay.wrap(on_stdout) if on_stdout else None,
                on_stderr=relay.wrap(on_stderr) if on_stderr else None,
                capture=capture,
                max_output=max_output,
                check=check,
            )
        )

    def start(
        self,
        command: str | Sequence[str | bytes],
        *,
        cwd: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float = 300.0,
        stdin: bool = False,
    ) -> Command:
        """See AsyncSandbox.start."""
        return Command(
            Bridge.current().run(self._twin.start(command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin))
        )

    def pause(self) -> None:
        """See AsyncSandbox.pause."""
        Bridge.current().run(self._twin.pause())

    def resume(self) -> None:
        """See AsyncSandbox.resume."""
        Bridge.current().run(self._twin.resume())

    def console(self, lines: int = 200) -> str:
        """See AsyncSandbox.console."""
        return Bridge.current().run(self._twin.console(lines))

    def memory_pss(self) -> int:
        """See AsyncSandbox.memory_pss."""
        return self._twin.memory_pss()

    def kill(self) -> KillEvidence:
        """See AsyncSandbox.kill."""
        return Bridge.current().run(self._twin.kill())

    def close(self) -> None:
        """See AsyncSandbox.close."""
        Bridge.current().run(self._twin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Command:
    """A command that runs. See AsyncCommand."""

    def __init__(self, twin: AsyncCommand) -> None:
        self._twin = twin
        self.pid = twin.pid

    def stdout(self) -> Iterator[bytes]:
        """Pieces as they come; the next one is fetched when it is asked for."""
        return Bridge.current().iterate(self._twin.stdout)

    def stderr(self) -> Iterator[bytes]:
        """The same for standard error."""
        return Bridge.current().iterate(self._twin.stderr)

    def write_stdin(self, data: bytes) -> bool:
        """See AsyncCommand.write_stdin."""
        return Bridge.current().run(self._twin.write_stdin(data))

    def close_stdin(self) -> None:
        """End of file."""
        Bridge.current().run(self._twin.close_stdin())

    def signal(self, number: int) -> None:
        """To the command's process group in the guest."""
        Bridge.current().run(self._twin.signal(number))

    def kill(self) -> Exit:
        """See AsyncCommand.kill."""
        return Bridge.current().run(self._twin.kill())

    def wait(self) -> Exit:
        """See AsyncCommand.wait."""
        return Bridge.current().run(self._twin.wait())

    def close(self) -> None:
        """Kill what still runs of it and let go."""
        Bridge.current().run(self._twin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Filesystem:
    """Files of a sandbox. See AsyncFilesystem."""

    def __init__(self, twin: AsyncFilesystem) -> None:
        self._twin = twin

    def read(self, path: GuestPath, *, max_bytes: int = MAX_WHOLE) -> bytes:
        """See AsyncFilesystem.read."""
        return Bridge.current().run(self._twin.read(path, max_bytes=max_bytes))

    def read_text(self, path: GuestPath, *, max_bytes: int = MAX_WHOLE) -> str:
        """See AsyncFilesystem.read_text."""
        return Bridge.current().run(self._twin.read_text(path, max_bytes=max_bytes))

    def write(
        self,
        path: GuestPath,
        contents: bytes | str,
        *,
        mode: int | None = None,
        owner: str | None = None,
        parents: bool = True,
    ) -> int:
        """See AsyncFilesystem.write."""
        return Bridge.current().run(self._twin.write(path, contents, mode=mode, owner=owner, parents=parents))

    def read_stream(self, path: GuestPath, target: Target) -> int:
        """See AsyncFilesystem.read_stream."""
        return Bridge.current().run(self._twin.read_stream(path, target))

    def chunks(self, path: GuestPath) -> Iterator[bytes]:
        """The file in pieces, fetched as they are asked for."""
        return Bridge.current().iterate(lambda: self._twin.chunks(path))

    def write_stream(
        self,
        path: GuestPath,
        source: str | Path | IO[bytes] | Iterable[bytes],
        *,
        mode: int | None = None,
        owner: str | None = None,
        parents: bool = True,
    ) -> int:
        """See AsyncFilesystem.write_stream."""
        return Bridge.current().run(self._twin.write_stream(path, source, mode=mode, owner=owner, parents=parents))

    def list(self, path: GuestPath) -> tuple[Entry, ...]:
        """See AsyncFilesystem.list."""
        return Bridge.current().run(self._twin.list(path))

    def stat(self, path: GuestPath) -> Stat:
        """See AsyncFilesystem.stat."""
        return Bridge.current().run(self._twin.stat(path))

    def exists(self, path: GuestPath) -> bool:
        """See AsyncFilesystem.exists."""
        return Bridge.current().run(self._twin.exists(path))

    def remove(self, path: GuestPath, *, recursive: bool = False) -> None:
        """See AsyncFilesystem.remove."""
        Bridge.current().run(self._twin.remove(path, recursive=recursive))

    def make_dir(self, path: GuestPath, *, parents: bool = True, mode: int = 0o755) -> None:
        """See AsyncFilesystem.make_dir."""
        Bridge.current().run(self._twin.make_dir(path, parents=parents, mode=mode))
