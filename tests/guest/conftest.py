"""Tests in real microVMs of the shipped template `base`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormcell.sandbox.templates import resolve
from stormcell.spec.home import Home
from stormcell.template.model import Template
from tests.homes import remove_home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.guest)


@pytest.fixture(scope="session")
def template() -> Template:
    """Built in the user's own cache if it is not there."""
    return asyncio.run(resolve("base", None))


@pytest.fixture(scope="module")
def own_home(template, tmp_path_factory) -> Iterator[Home]:
    """A state of our own over the user's cache. No sandbox may be left in it."""
    root: Path = tmp_path_factory.mktemp("home")
    (root / "cache").symlink_to(Home.current().cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORMCELL_HOME", str(root))
        yield Home.current()
    sandboxes = root / "state" / "sandboxes"
    left = sorted(sandboxes.iterdir()) if sandboxes.exists() else []
    remove_home(root)
    assert left == []
