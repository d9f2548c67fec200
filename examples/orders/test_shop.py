"""The fixed shop, as its engineers would test it: `pytest examples/orders/test_shop.py`.

The machine is prepared once for the file; every test gets a fork of it, so that all start from the same instant.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from stormcell import chaos

pytestmark = pytest.mark.stormcell(
    template="template.yaml",
    open_ports={"shop": 8081},
    # a restored machine under software emulation is slow in whatever it does for the first time
    setup='curl -sf -d \'{"customer": "setup", "sku": "pear"}\' \'http://127.0.0.1:8081/orders#[1-8]\'',
)


@pytest.fixture
def ask(forked) -> Callable[..., tuple[int, Any]]:
    """A customer on another machine: status and answer."""

    def send(path: str, body: dict[str, object] | None = None, timeout: float = 20.0) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = Request(f"http://127.0.0.1:{forked.ports['shop']}{path}", data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, None

    return send


def test_a_slow_database_makes_an_order_slow_and_no_more(forked, ask):
    with chaos(forked, "net.delay", device="lo", remote_port=5432, delay="200ms", within="10s"):
        status, order = ask("/orders", {"customer": "ann", "sku": "apple"})
        assert status == 201
    assert ask(f"/orders/{order['id']}") == (200, order)


def test_the_shop_sells_without_its_cache(forked, ask):
    with chaos(forked, "net.reject", device="lo", remote_port=6379):
        status, _ = ask("/orders", {"customer": "ben", "sku": "pear"})
        assert status == 201


def test_no_order_is_lost_when_the_database_is_killed(forked, ask):
    _, order = ask("/orders", {"customer": "cat", "sku": "plum"})
    with chaos(forked, "process.kill", service="postgresql"):
        forked.exec("until pg_isready -q -h 127.0.0.1; do sleep 0.2; done", timeout=60, check=True)
    assert ask(f"/orders/{order['id']}")[0] == 200


@pytest.mark.stormcell(experiment="experiments/slow-database-fixed.yaml")
def test_checkout_stays_usable_on_a_slow_database(outcome):
    (under,) = [probe for probe in outcome.result.probes if probe.phase == "under"]
    assert under.metrics["success_rate"] == 1
