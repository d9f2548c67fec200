"""A cell as a document whose errors name the line that is to be mended: the experiment's, or the matrix's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stormcell.spec.expansion import Cell, Path_
from stormcell.spec.yamlfile import Document


@dataclass(frozen=True)
class CellDocument(Document):
    """An experiment with some values from a campaign. `over` is the campaign's document."""

    over: Document | None = None
    replaced: Mapping[Path_, Path_] = field(default_factory=dict)

    def where(self, path: Iterable[str | int]) -> str:
        """In the campaign's file for what came from there, else in the experiment's."""
        keys = tuple(path)
        for count in range(len(keys), 0, -1):
            place = self.replaced.get(keys[:count])
            if place is not None and self.over is not None:
                return self.over.where((*place, *keys[count:]))
        return super().where(keys)


def document_of(cell: Cell, base: Document, over: Document) -> CellDocument:
    """The cell's data, with the lines of both files."""
    lines = {
        path: line
        for path, line in base.lines.items()
        if not any(path[: len(place)] == place for place in cell.replaced)
    }
    for place, written in cell.replaced.items():
        below = {path: line for path, line in over.lines.items() if path[: len(written)] == written}
        lines |= {(*place, *path[len(written) :]): line for path, line in below.items()}
        lines.setdefault(place, 1)
    return CellDocument(cell.data, base.source, lines, base.text, over, cell.replaced)


def inline(document: Document, at: Path_) -> Document:
    """What stands at `at`, as a document of its own; its errors name this file's lines."""
    data = document.data
    for key in at:
        data = data[key]
    lines = {path[len(at) :]: line for path, line in document.lines.items() if path[: len(at)] == at}
    return Document(data, document.source, lines)
