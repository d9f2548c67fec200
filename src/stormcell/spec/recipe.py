"""The recipe of a guest: packages, files, a setup script, services, and what shows that it is ready."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError
from stormcell.spec.units import Duration, Size, size_text
from stormcell.spec.value import Value

NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
MIB = 1 << 20
MIN_MEMORY, MAX_MEMORY = 256 * MIB, 16 * 1024 * MIB
MIN_VOLUME = 16 * MIB
MIN_DISK, MAX_DISK = 512 * MIB, 1 << 40
MAX_FILE = 16 * MIB


class RecipeFile(Value):
    """A file of the guest: its text here, or a file beside the recipe."""

    path: str
    content: str | None = None
    source: str | None = None
    """Relative to the recipe's folder."""
    mode: str = Field(default="0644", pattern=r"^0?[0-7]{3,4}$")
    owner: str = Field(default="root", pattern=r"^[a-z_][a-z0-9_-]*(:[a-z_][a-z0-9_-]*)?$")
    """`user` or `user:group`; both must exist once the packages are installed."""

    @model_validator(mode="after")
    def _one_origin(self) -> RecipeFile:
        if not self.path.startswith("/") or self.path.endswith("/") or "/../" in f"{self.path}/" or "\0" in self.path:
            raise ValueError(f"'{self.path}' is no absolute path of a file without '..'")
        if (self.content is None) == (self.source is None):
            raise ValueError("give either `content` or `source`")
        return self


class Service(Value):
    """A program that the guest's supervisor runs in the foreground, in a cgroup of its own."""

    name: str = Field(pattern=NAME)
    command: tuple[str, ...] = Field(min_length=1)
    """A list of arguments, or shell text (then /bin/sh runs it; begin it with `exec`)."""
    user: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    before: str | None = None
    """Shell text, run as root before each start, e.g. to make a folder below /run."""
    ready: str | None = None
    """Shell text, run as root again and again until it exits with 0; only then the next service starts."""
    ready_within: Duration = 60.0
    restart: Literal["always", "never"] = "always"
    restart_delay: Duration = 1.0

    @field_validator("command", mode="before")
    @classmethod
    def _shell_text(cls, command: Any) -> Any:
        return ("/bin/sh", "-c", command) if isinstance(command, str) else command


class Disk(Value):
    """The guest's root file system (ext4). `inodes` is what fits beside the packages when it is not given."""

    size: Size = 2048 * MIB
    inodes: int | None = Field(default=None, ge=4096, le=1 << 24)

    @field_validator("size")
    @classmethod
    def _bounds(cls, size: int) -> int:
        return _between(size, MIN_DISK, MAX_DISK, "a disk")


class Volume(Value):
    """A folder on a device of its own (ext4 with quotas), so that a fault can act on its disk and nothing else.

    It is made before `setup` with what the packages and `files` put there, and mounted at every boot.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    path: str
    size: Size
    """Taken from the root file system: at least 16MiB."""
    owner: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_-]*(:[a-z_][a-z0-9_-]*)?$")
    """Of the folder, `user` or `user:group`; as it was when not given."""

    @field_validator("size")
    @classmethod
    def _bounds(cls, size: int) -> int:
        return _between(size, MIN_VOLUME, MAX_DISK, "a volume")

    @field_validator("path")
    @classmethod
    def _folder(cls, path: str) -> str:
        if not path.startswith("/") or path.strip("/") == "" or ".." in path.split("/") or not path.isprintable():
            raise ValueError(f"'{path}' is no absolute path of a folder without '..'")
        return path.rstrip("/")


class Recipe(Value):
    """What a template is built from."""

    stormcell: Literal[1] = 1
    name: str = Field(pattern=NAME)
    description: str = ""
    packages: tuple[str, ...] = ()
    """Debian packages, beside those that every guest has."""
    files: tuple[RecipeFile, ...] = ()
    """Written before `setup`."""
    volumes: tuple[Volume, ...] = ()
    """Data disks: folders that faults of the disk can act on."""
    setup: str = ""
    """Shell text, run once as root in the guest, before the services start. It must exit with 0."""
    setup_within: Duration = 600.0
    services: tuple[Service, ...] = ()
    ready: str = ""
    """Shell text, run as root again and again until it exits with 0."""
    ready_within: Duration = 120.0
    warm: str = ""
    """Shell text, run after `ready` to fill caches. It must exit with 0."""
    memory: Size = 512 * MIB
    vcpus: int = Field(default=1, ge=1, le=16)
    disk: Disk = Disk()
    _source: Path | None = PrivateAttr(default=None)

    @field_validator("memory")
    @classmethod
    def _bounds(cls, memory: int) -> int:
        if memory % MIB:
            raise ValueError("memory is a whole number of MiB")
        return _between(memory, MIN_MEMORY, MAX_MEMORY, "memory")

    @field_validator("packages")
    @classmethod
    def _package_names(cls, packages: tuple[str, ...]) -> tuple[str, ...]:
        for name in packages:
            # deb-control(5): these reach a program's argument list, where an option or a list would be understood
            if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
                raise ValueError(f"'{name}' is no name of a Debian package")
        return packages

    @model_validator(mode="after")
    def _unique(self) -> Recipe:
        uses = (
            ("service", [s.name for s in self.services]),
            ("file", [f.path for f in self.files]),
            ("volume", [v.name for v in self.volumes]),
            ("volume's path", [v.path for v in self.volumes]),
        )
        for what, names in uses:
            for name, count in Counter(names).items():
                if count > 1:
                    raise ValueError(f"the {what} '{name}' is there {count} times")
        if (wanted := sum(v.size for v in self.volumes)) >= self.disk.size:
            raise ValueError(
                f"volumes of {size_text(wanted)} do not fit on a disk of {size_text(self.disk.size)}; "
                "give the recipe a larger one with `disk: {size: ...}`"
            )
        return self

    def located(self, source: Path) -> Recipe:
        """This recipe, read from the file `source`: its files' sources are looked for beside it."""
        copy = self.model_copy()
        copy._source = source.absolute()
        return copy

    @property
    def source(self) -> Path | None:
        """The file that it was read from."""
        return self._source

    def sources(self) -> list[Path]:
        """The files on the host that it is read from: its own, and those that it names."""
        named = [self._path(file.source) for file in self.files if file.source is not None]
        return [*([self._source] if self._source else []), *named]

    def _path(self, source: str) -> Path:
        return (self._source.parent if self._source else Path.cwd()) / source

    def contents(self) -> dict[str, bytes]:
        """Guest path -> content of each file. Raises SpecError for a source that cannot be read."""
        return {file.path: self._content(file) for file in self.files}

    def _content(self, file: RecipeFile) -> bytes:
        if file.source is None:
            return (file.content or "").encode()
        path = self._path(file.source)
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_FILE + 1)
        except OSError as error:
            raise SpecError(
                f"the source of '{file.path}' cannot be read ({error.strerror})",
                where=str(path),
                rule="`source` is relative to the recipe's folder",
            ) from error
        if len(content) > MAX_FILE:
            raise SpecError(f"the source of '{file.path}' is larger than {size_text(MAX_FILE)}", where=str(path))
        return content


def load_recipe(path: Path) -> Recipe:
    """Read a recipe file. Raises SpecError that names the line; a source that is missing is found here too."""
    document = yamlfile.load(path, "recipe")
    recipe = yamlfile.validated(document, Recipe.model_validate, "recipe").located(path)
    recipe.contents()
    return recipe


def _between(value: int, low: int, high: int, what: str) -> int:
    if not low <= value <= high:
        raise ValueError(f"{what} is between {size_text(low)} and {size_text(high)}")
    return value
