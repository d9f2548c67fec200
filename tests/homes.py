"""Homes of tests' own."""

import shutil
import time
from pathlib import Path


def remove_home(root: Path) -> None:
    """Also while a reaper that just begins puts its lock and its log into it."""
    for _ in range(300):
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{root} cannot be removed: {list(root.rglob('*'))[:5]}")
