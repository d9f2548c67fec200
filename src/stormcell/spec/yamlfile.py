"""YAML whose errors name the line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from stormcell.spec.complaints import complaint
from stormcell.spec.errors import SpecError

MAX_BYTES = 64 << 10
"""A person's spec is far smaller, and the parser takes seconds for much more."""
T = TypeVar("T")
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """Plain data, and the line (from 1) of every node by its path. `text` is what was read, if it was read."""

    data: Any
    source: str
    lines: dict[Path_, int] = field(default_factory=dict)
    text: str = ""

    def where(self, path: Iterable[str | int]) -> str:
        """`FILE:LINE` of the deepest node that exists on the way to `path`."""
        keys = tuple(path)
        while keys not in self.lines and keys:
            keys = keys[:-1]
        return f"{self.source}:{self.lines.get(keys, 1)}"


def load(path: Path, what: str = "file") -> Document:
    """Read one YAML document. Raises SpecError for a missing, unreadable, too large or malformed file."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"the {what} cannot be read ({error.strerror})", where=str(path)) from error
    if len(raw) > MAX_BYTES:
        raise SpecError(
            f"the {what} is larger than {MAX_BYTES >> 10} KiB",
            where=str(path),
            remedy="is this the right file? Long scripts belong into files of the template (`files:`)",
        )
    try:
        return parse(raw.decode(), str(path))
    except UnicodeDecodeError as error:
        raise SpecError(f"the {what} is no UTF-8 text (byte {error.start})", where=str(path)) from error


def parse(text: str, source: str) -> Document:
    """Parse YAML text. Raises SpecError naming the line."""
    try:
        node = YAML(typ="rt", pure=True).load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = str(error.problem or error.context or "malformed").strip()
        raise SpecError(
            f"this is no valid YAML: {problem.splitlines()[0].split(' with value ')[0]}",
            where=f"{source}:{line}",
            remedy="write each field once"
            if "duplicate key" in problem
            else "check the indentation, quotes and brackets on this line and the one before it",
        ) from error
    except RecursionError as error:
        raise SpecError("the file is nested too deeply or refers to itself", where=source) from error
    except Exception as error:  # the parser lets through whatever odd input raises inside it: a merge of itself, a tag
        problem = str(error) if isinstance(error, YAMLError | ValueError) else type(error).__name__
        raise SpecError(f"this is no valid YAML: {[*problem.splitlines(), 'malformed'][0]}", where=source) from error
    lines: dict[Path_, int] = {(): 1}
    data = _plain(node, (), lines, depth=0, source=source)
    if not isinstance(data, dict):
        raise SpecError("the file holds no mapping", where=f"{source}:1", rule="a spec is a YAML mapping of fields")
    return Document(data, source, lines, text)


def _plain(node: Any, path: Path_, lines: dict[Path_, int], *, depth: int, source: str) -> Any:
    if depth > 50 or len(lines) > 20_000:
        raise SpecError("the file is nested too deeply or refers to itself", where=source)
    if isinstance(node, CommentedMap):
        result = {}
        for key, value in node.items():
            place = (*path, _text(str(key), path, lines, source))
            lines[place] = node.lc.key(key)[0] + 1 if key in (node.lc.data or {}) else lines[path]
            result[str(key)] = _plain(value, place, lines, depth=depth + 1, source=source)
        return result
    if isinstance(node, CommentedSeq):
        items = []
        for index, value in enumerate(node):
            lines[(*path, index)] = node.lc.item(index)[0] + 1 if index in (node.lc.data or {}) else lines[path]
            items.append(_plain(value, (*path, index), lines, depth=depth + 1, source=source))
        return items
    if isinstance(node, bool) or node is None:
        return node
    for base in (int, float):
        if isinstance(node, base):
            return base(node)
    return _text(str(node), path, lines, source)


def _text(text: str, path: Path_, lines: dict[Path_, int], source: str) -> str:
    """Text that can be written, printed and handed to the kernel: YAML's escapes can make some that cannot."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise SpecError(
            "a text holds a NUL or half of a surrogate pair",
            where=f"{source}:{lines[path]}",
            rule="no command, path or name can hold it",
        )
    return text


def validated(document: Document, read: Callable[[Any], T], what: str, at: Path_ = ()) -> T:
    """`read(document.data)`, with a pydantic error turned into one SpecError that names file, line and field.

    `at` is where in the document the data that `read` looks at begins.
    """
    try:
        return read(document.data)
    except ValidationError as error:
        first, *more = error.errors(include_url=False)
        first, same = _nearest_form(document, at, first, more)
        location = _in_document(document, (*at, *first["loc"]))
        context = first.get("ctx") or {}
        if first["type"] == "unknown_field":
            location = (*location, str(context["field"]))
        elif first["type"] == "wrong_at":
            location = (*location, *context["path"])
        name = ".".join(str(part) for part in location) or what
        message = complaint(first, same)
        elsewhere = {e["loc"] for e in more if e["type"] != "too_short" and e["loc"][:1] != first["loc"][:1]}
        others = f"{len(elsewhere)} more in this file, shown once this is mended" if elsewhere else ""
        raise SpecError(f"{name}: {message}", where=document.where(location), detail=others) from error


def _nearest_form(
    document: Document, at: Path_, first: ErrorDetails, more: list[ErrorDetails]
) -> tuple[ErrorDetails, list[ErrorDetails]]:
    """Of a field that may have several forms each one complains: the one that got furthest, and its equals."""
    place = _in_document(document, (*at, *first["loc"]))
    forms = [first]
    for other in more:
        there = _in_document(document, (*at, *other["loc"]))
        if there[: len(place)] == place and len(other["loc"]) > len(there) - len(at):
            forms.append(other)
    best = max(forms, key=lambda form: len(_in_document(document, (*at, *form["loc"]))))
    deepest = _in_document(document, (*at, *best["loc"]))
    return best, [f for f in forms if f is not best and _in_document(document, (*at, *f["loc"])) == deepest]


def _in_document(document: Document, location: Path_) -> Path_:
    """A pydantic location without the parts that are no keys of the file (names of union members)."""
    kept: Path_ = ()
    for part in location:
        if (*kept, part) in document.lines:
            kept = (*kept, part)
    return kept
