"""Whether a recipe's disk image is the same when it is built twice: `python -m bench.reproducible [RECIPE...]`.

Each is built in two empty homes, the second with another TMPDIR and umask and, with `--load N`, beside N busy
processes. Exit code 1 when images differ: then their packages or files that differ are named. A recipe takes two builds
of 30 to 60 s.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stormcell.machine.host import tool
from stormcell.machine.kernel import ensure_kernel
from stormcell.spec.home import Home
from stormcell.template.image import ImageSpec, ensure_image
from stormcell.template.manifest import read_manifest, sha256
from stormcell.template.packages import differences
from stormcell.template.store import find


def main(argv: Sequence[str] | None = None) -> int:
    """Build, compare, say."""
    parser = argparse.ArgumentParser(prog="python -m bench.reproducible")
    parser.add_argument("recipes", nargs="*", default=["base"])
    parser.add_argument("--load", type=int, default=0, metavar="N")
    chosen = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as place:
        alike = [_alike(recipe, Path(place) / str(number), chosen.load) for number, recipe in enumerate(chosen.recipes)]
    return 0 if all(alike) else 1


def _alike(recipe: str, place: Path, load: int) -> bool:
    first = _build(recipe, place / "first")
    with _elsewhere(place / "elsewhere", load):
        second = _build(recipe, place / "second")
    if sha256(first) == sha256(second):
        return True
    packages = [list(read_manifest(image.parent)["installed"]) for image in (first, second)]
    files = sorted({path for path, _ in _files(first) ^ _files(second)})
    for line in differences(*packages) or files or ["owners, modes or the file system's own data"]:
        print(f"  differs: {line}")
    return False


def _build(recipe: str, place: Path) -> Path:
    kernel = ensure_kernel(Home.current())
    wanted = find(recipe, Home.current())
    spec = ImageSpec.of(wanted.packages, kernel, wanted.disk.size, wanted.disk.inodes)
    began = time.monotonic()
    image = asyncio.run(ensure_image(Home(place / "state", place / "cache"), spec, lambda _: None))
    print(f"{wanted.name}: {sha256(image)} in {time.monotonic() - began:.0f} s")
    sys.stdout.flush()
    return image


@contextmanager
def _elsewhere(temporary: Path, load: int) -> Iterator[None]:
    """Another TMPDIR and umask, and `load` busy processes."""
    temporary.mkdir(parents=True)
    before, os.environ["TMPDIR"] = os.environ.get("TMPDIR"), str(temporary)
    mask = os.umask(0o077)
    with ExitStack() as busy:
        for _ in range(load):
            spinner = busy.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            busy.callback(spinner.kill)
        try:
            yield
        finally:
            os.umask(mask)
            del os.environ["TMPDIR"]
            if before is not None:
                os.environ["TMPDIR"] = before


def _files(image: Path) -> set[tuple[str, str]]:
    """Path and digest of each file, or what a link says."""
    found = set()
    with tempfile.TemporaryDirectory(dir=image.parent) as place:
        dump: list[str | Path] = [tool("debugfs", "e2fsprogs"), "-R", f'rdump / "{place}"', image]
        subprocess.run(dump, check=True, capture_output=True)
        for path in Path(place).rglob("*"):
            if path.is_symlink() or path.is_file():
                content = str(path.readlink()) if path.is_symlink() else sha256(path)
                found.add((f"/{path.relative_to(place)}", content))
    return found


if __name__ == "__main__":
    sys.exit(main())
