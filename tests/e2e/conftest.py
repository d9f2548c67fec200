"""A state of our own over the user's cache, so that gc meets nothing of the user's."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormcell.sandbox.templates import resolve
from stormcell.spec.home import Home
from tests.homes import remove_home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def built() -> Path:
    """The cache that holds the template `base`."""
    asyncio.run(resolve("base", None))
    return Home.current().cache


@pytest.fixture
def home(built, tmp_path_factory) -> Iterator[Path]:
    root: Path = tmp_path_factory.mktemp("home")
    (root / "cache").symlink_to(built)
    yield root
    sandboxes = root / "state" / "sandboxes"
    left = sorted(sandboxes.iterdir()) if sandboxes.exists() else []
    remove_home(root)
    assert left == []
