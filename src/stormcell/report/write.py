"""The three files of a report in a folder."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stormcell.report.jsonfile import json_text
from stormcell.report.junit import junit
from stormcell.report.model import Report
from stormcell.report.page import page
from stormcell.spec.errors import HostError, NoPermission, NoSpace
from stormcell.spec.files import unfinished

HTML, JSON, JUNIT = "report.html", "report.json", "junit.xml"


@dataclass(frozen=True)
class Written:
    """Where the files are."""

    html: Path
    json: Path
    junit: Path


def prepare(folder: Path) -> None:
    """Make the folder and see that files can be made in it, before anything is run. Raises HostError."""
    with _host_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")


def write(report: Report, folder: Path) -> Written:
    """Replace the three files, each as a whole; what else is in the folder stays. Raises HostError."""
    prepare(folder)
    written = Written(folder / HTML, folder / JSON, folder / JUNIT)
    for path, text in ((written.html, page(report)), (written.json, json_text(report)), (written.junit, junit(report))):
        with _host_errors(path):
            _replace(path, text)
    return written


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with unfinished(aside):
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)


@contextmanager
def _host_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise NoPermission(
            f"the report cannot be written ({error.strerror})", where=str(path), remedy="name another folder"
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpace(
                f"the report cannot be written ({error.strerror})", where=str(path), remedy="make room"
            ) from error
        raise HostError(
            f"the report cannot be written ({error.strerror or error})",
            where=str(path),
            rule="a report needs a folder, which is made when it is not there",
        ) from error
