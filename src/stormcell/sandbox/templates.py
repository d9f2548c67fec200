"""Which template a caller means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stormcell.spec.errors import TemplateNotFound
from stormcell.spec.home import Home
from stormcell.template.model import Progress, Template

OnProgress = Callable[[Progress], None]


async def resolve(template: str | Template, progress: OnProgress | None) -> Template:
    """The Template itself; the one of a recipe, built if missing or stale; a built one whose recipe is gone.

    Raises TemplateNotFound, SpecError, HostError, BuildFailed, TemplateBroken.
    """
    if isinstance(template, Template):
        return template
    # YAML and the image builder are only for those who name a template
    from stormcell.template.build import build
    from stormcell.template.store import Store, find

    home = Home.current()
    try:
        recipe = find(template, home)
    except TemplateNotFound:
        store = Store(home)
        return store.open(store.digest_of(template))
    return await build(recipe, home=home, progress=progress or (lambda _: None))


async def resolve_to_keep(template: str | Template, progress: OnProgress | None) -> tuple[Template, Callable[[], bool]]:
    """The same for those who keep what they made of it, with what tells whether it is still the one that is meant.

    It is not once its files are gone or others, or once its recipe or a file that the recipe names was written to.
    """
    from stormcell.template.manifest import untouched

    meant = _meaning(template)
    found = await resolve(template, progress)
    return found, lambda: untouched(found.memory, found.manifest) and _same(meant)


def _meaning(template: str | Template) -> list[tuple[Path, tuple[int, ...] | str]]:
    """The files that decide what is meant, with their stamps, or with the text of the one that names a digest."""
    if isinstance(template, Template):
        return []
    from stormcell.template.store import find

    home = Home.current()
    try:
        return [(path, _stamp(path)) for path in find(template, home).sources()]
    except TemplateNotFound:
        name = home.names / template
        return [(name, name.read_text())] if name.exists() else []


def _same(meant: list[tuple[Path, tuple[int, ...] | str]]) -> bool:
    try:
        return all((path.read_text() if isinstance(known, str) else _stamp(path)) == known for path, known in meant)
    except OSError:
        return False


def _stamp(path: Path) -> tuple[int, ...]:
    info = path.stat()
    return info.st_ino, info.st_size, info.st_mtime_ns
