"""A run's folder: everything needed to judge it again, years later.

spec.yaml | spec.json   what was asked (the file as it was; the checked experiment)
plan.json               what was to be done
events.jsonl            what happened, one JSON object a line, as it happened
receipts.json           what the kernel said, and the fault's judgement of it
console.log             the guest's console, at its end
result.json             the verdict
branches/NAME/          of an experiment with branches: the same of each fork; the rest is of the drive to the moment
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import ValidationError

from stormcell.spec.errors import NoPermission, NoSpace, SpecError
from stormcell.spec.files import read_regular, unfinished
from stormcell.spec.home import private_folder
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Result

T = TypeVar("T")
MAX_EVENTS_BYTES = 256 << 20
"""More than this from one run is refused: a guest that floods must not fill the host's disk."""


@dataclass
class RunFolder:
    """Written during the run; readable at any moment, also after a crash of ours."""

    path: Path
    _events: IO[str] | None = None
    _written: int = 0
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def create(cls, runs: Path, experiment: str) -> RunFolder:
        """A new folder below `runs`, named by time, experiment and a random end."""
        stamp = time.strftime("%Y%m%dT%H%M%S")
        path = private_folder(runs) / f"{stamp}-{experiment}-{secrets.token_hex(3)}"
        with _host_errors(path):
            path.mkdir(mode=0o700)
        return cls(path)

    def below(self, name: str) -> RunFolder:
        """The folder of a part of this run."""
        path = self.path / name
        with _host_errors(path):
            path.mkdir(mode=0o700, parents=True)
        return RunFolder(path)

    def write(self, name: str, content: str) -> None:
        """Replace a file as a whole: a reader sees the old or the new one."""
        target = self.path / name
        aside = target.with_name(f".{name}.new")
        with _host_errors(target), unfinished(aside):
            with aside.open("w") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            aside.replace(target)

    def discard(self) -> None:
        """Nothing was started: leave nothing."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def write_json(self, name: str, value: Any) -> None:
        """The same, as indented JSON."""
        self.write(name, json.dumps(value, indent=1) + "\n")

    def append(self, name: str, value: Any) -> None:
        """A line of JSON at the end of a file."""
        with _host_errors(self.path / name), (self.path / name).open("a") as stream:
            stream.write(json.dumps(value) + "\n")

    def event(self, event: Mapping[str, Any], *, at: float | None = None) -> dict[str, Any]:
        """Append one event with the host's seconds since the run began (`h`), or `at`. Returns what was written."""
        line = {"h": round(time.monotonic() - self.began if at is None else at, 6), **event}
        text = json.dumps(line) + "\n"
        self._written += len(text)
        if self._written > MAX_EVENTS_BYTES:
            raise NoSpace("the run's events exceed 256 MiB", where=str(self.path), remedy="probe less often")
        with _host_errors(self.path):
            if self._events is None:
                self._events = (self.path / "events.jsonl").open("a")
            self._events.write(text)
            self._events.flush()
        return line

    def close(self) -> None:
        """Let go of the event log."""
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(OSError):  # what it still holds was told as an error when it was written
                events.close()

    def save_receipts(self, receipts: Mapping[str, Receipt]) -> None:
        """Replace receipts.json."""
        self.write_json("receipts.json", {name: item.model_dump(mode="json") for name, item in receipts.items()})

    def save_result(self, result: Result) -> None:
        """Replace result.json."""
        self.write_json("result.json", result.model_dump(mode="json"))


def read_plan(folder: Path) -> Plan:
    """The plan of a run. Raises SpecError."""
    return _read(folder / "plan.json", Plan.model_validate)


def read_receipts(folder: Path) -> dict[str, Receipt]:
    """The receipts of a run; none when it ended before there were any. Raises SpecError when they are damaged."""
    if not (folder / "receipts.json").exists():
        return {}
    return _read(
        folder / "receipts.json",
        lambda data: {str(name): Receipt.model_validate(item) for name, item in data.items()},
    )


def read_experiment(folder: Path) -> dict[str, Any]:
    """The checked experiment, as data. Raises SpecError."""
    return _read(folder / "spec.json", dict)


def _read(path: Path, read: Callable[[Any], T]) -> T:
    try:
        return read(json.loads(read_regular(path)))
    except OSError as error:
        raise SpecError(
            f"this is no run's folder: {path.name} cannot be read ({error.strerror})",
            where=str(path.parent),
            rule="a run's folder has plan.json, spec.json and events.jsonl",
            remedy="give the folder that `stormcell run` named at its end",
        ) from error
    except (ValueError, ValidationError, AttributeError, TypeError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise SpecError(
            f"{path.name} is damaged ({first})",
            where=str(path),
            rule="a run is judged and repeated from the files that it wrote, as it wrote them",
            remedy="take the folder from where it was kept, or run the experiment again",
        ) from error


@contextmanager
def _host_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise NoPermission(f"cannot be written ({error.strerror})", where=str(path)) from error
    except OSError as error:
        raise NoSpace(f"cannot be written ({error.strerror})", where=str(path), remedy="make room") from error
