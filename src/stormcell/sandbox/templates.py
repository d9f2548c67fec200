"""Which template a caller means."""

from __future__ import annotations

from collections.abc import Callable

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
