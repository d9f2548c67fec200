"""The shop as a fixture: see shop.py."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.examples.shop import EXAMPLE, POSTGRES, Shop, free_ports, missing


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    if reason := missing():
        pytest.skip(reason)
    # Not under pytest's own folder, which is closed to the user that PostgreSQL runs as.
    folder = Path(tmp_path_factory.mktemp("shop"))
    if os.geteuid() == 0:
        folder = Path("/var/tmp") / f"shop-{os.getpid()}"
        folder.mkdir(mode=0o755)
    names = ("postgres", "redis", "orders", "orders_fixed")
    running = Shop(folder, dict(zip(names, free_ports(len(names)), strict=True)))
    try:
        for name in ("pg", "run"):
            (folder / name).mkdir()
            if os.geteuid() == 0:
                shutil.chown(folder / name, "nobody")
        initdb = [
            *running.unprivileged(),
            f"{POSTGRES}/initdb",
            "-U",
            "orders",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "-D",
            f"{folder}/pg",
        ]
        subprocess.run(initdb, check=True, capture_output=True)
        running.start_postgres()
        running.start_redis()
        for variant in ("orders", "orders_fixed"):
            running.psql("postgres", f"CREATE DATABASE {variant}")
            running.psql(variant, (EXAMPLE / "etc" / "schema.sql").read_text())
        running.psql("orders_fixed", (EXAMPLE / "etc" / "schema_fixed.sql").read_text())
        for variant in ("orders", "orders_fixed"):
            running.start_service(variant)
        yield running
    finally:
        for name in list(running.children):
            running.stop(name)
        time.sleep(0.5)  # the children of the postmaster see that it is gone
        shutil.rmtree(folder, ignore_errors=True)
