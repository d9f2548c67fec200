"""Sandboxes of the shipped template `base`, in a home of their own over the user's cache."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stormcell import Sandbox
from stormcell.spec.home import Home
from tests.homes import remove_home


@pytest.fixture(scope="session")
def own_home(template, tmp_path_factory) -> Iterator[Path]:
    """A state of our own, so that gc and the reaper meet nothing of the user's. Nothing may be left in it."""
    root: Path = tmp_path_factory.mktemp("home")
    (root / "cache").symlink_to(Home.current().cache)
    yield root
    sandboxes = root / "state" / "sandboxes"
    left = sorted(sandboxes.iterdir()) if sandboxes.exists() else []
    remove_home(root)  # the reaper leaves with it
    assert left == []


@pytest.fixture(scope="module", autouse=True)
def home(own_home) -> Iterator[Home]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORMCELL_HOME", str(own_home))
        yield Home.current()


@pytest.fixture(scope="module")
def sbx(home, template) -> Iterator[Sandbox]:
    """One for all tests of a module that leave it usable."""
    with Sandbox.create(template, ttl_seconds=600) as made:
        yield made


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], bool]:
    def wait(condition: Callable[[], object], seconds: float = 120.0) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.05)
        return False

    return wait
