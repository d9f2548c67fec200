"""The ledger against shops that lose answers, and its count of what a database lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.unit.examples.shop import EXAMPLE, Shop, module, until

ledger = module("ledger")


@contextmanager
def writer(url: str, path: Path, *, rate: float = 20, timeout: float = 2) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, f"{EXAMPLE}/ledger.py", "write", "--url", url, "--ledger", str(path)]
    options = ["--rate", str(rate), "--timeout", str(timeout)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


class LosesFirstAnswer(BaseHTTPRequestHandler):
    """Books each request and answers only the second one of a key."""

    booked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        key = self.headers["Idempotency-Key"]
        self.booked.append(key)
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.booked.count(key) > 1:
            body = json.dumps({"id": len(self.booked)}).encode()
            self.send_response(201)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_lost_answer_is_asked_for_again_with_the_same_key(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), LosesFirstAnswer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with writer(f"http://127.0.0.1:{server.server_port}", tmp_path / "ledger", timeout=30) as process:
            assert process.stdout
            printed = [process.stdout.readline() for _ in range(3)]
    finally:
        server.shutdown()
        server.server_close()
    written = (tmp_path / "ledger").read_text()
    assert all(line in written for line in printed)
    for line in printed:
        assert LosesFirstAnswer.booked.count(line.split()[0]) == 2


def test_a_torn_last_line_is_no_acknowledgement(tmp_path):
    (tmp_path / "ledger").write_text("a 1\nb 2\nc 3")
    assert ledger.acknowledged(str(tmp_path / "ledger")) == {("a", 1), ("b", 2)}


def test_an_empty_ledger_proves_nothing(tmp_path):
    with pytest.raises(SystemExit, match="nothing to compare"):
        ledger.acknowledged(str(tmp_path / "ledger"))


@pytest.mark.parametrize(
    ("in_database", "lost", "twice"),
    [
        ([("a", 1), ("b", 2)], 0, 0),
        ([("a", 1)], 1, 0),
        ([("a", 1), ("c", 2)], 1, 0),  # the number of the lost order was given away again
        ([("a", 1), ("b", 2), ("b", 3)], 0, 1),
        ([("a", 1), ("b", 2), ("c", 4), ("c", 5), ("c", 6)], 0, 2),
    ],
)
def test_lost_and_twice(in_database, lost, twice):
    promised = {("a", 1), ("b", 2)}
    assert ledger.lost(in_database, promised) == lost
    assert ledger.twice(in_database, promised) == twice


def test_a_database_that_cannot_be_asked_is_an_error_unless_told_otherwise(tmp_path, monkeypatch, capsys):
    (tmp_path / "ledger").write_text("a 1\n")
    monkeypatch.setattr(ledger, "PSQL", "/usr/bin/false")
    with pytest.raises(SystemExit, match="cannot be asked"):
        ledger.check("lost", "orders", str(tmp_path / "ledger"), 0, None)
    ledger.check("lost", "orders", str(tmp_path / "ledger"), 0, -1)
    assert capsys.readouterr().out == "lost -1\n"


def count(shop: Shop, what: str, variant: str, path: Path) -> int:
    command = [sys.executable, f"{EXAMPLE}/ledger.py", what, "--database", variant, "--ledger", str(path)]
    environment = {**os.environ, "PGPORT": str(shop.ports["postgres"])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    name, number = done.stdout.split()
    assert name == what
    return int(number)


def killed_while_writing(shop: Shop, variant: str, path: Path) -> int:
    """Acknowledged orders that are lost after one process of PostgreSQL died by SIGKILL."""
    with writer(shop.url(variant), path):
        until(lambda: path.exists() and len(path.read_text().splitlines()) > 20, "the first orders")
        os.kill(
            int(shop.psql("postgres", "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")),
            signal.SIGKILL,
        )
        time.sleep(1)
    return count(shop, "lost", variant, path)


def test_the_fixed_shop_keeps_what_it_acknowledged_when_postgres_is_killed(shop, tmp_path):
    assert killed_while_writing(shop, "orders_fixed", tmp_path / "ledger") == 0


def test_the_first_shop_loses_orders_when_postgres_is_killed(shop, tmp_path):
    """The WAL writer flushes every 0.2 s: one kill may fall just behind a flush, ten do not."""
    losses = (killed_while_writing(shop, "orders", tmp_path / f"ledger{n}") for n in range(10))
    assert any(losses)
