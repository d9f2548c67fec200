"""What both shops promise while nothing is wrong, and what each does when something is."""

import json
import os
import signal
import threading
import time

import pytest

from tests.unit.examples.shop import Shop, call, until

BOTH = pytest.mark.parametrize("variant", ["orders", "orders_fixed"])


def place(shop: Shop, variant: str, key: str | None = None, **changed: object) -> tuple[int, dict[str, object]]:
    order = {"customer": "eve", "sku": "pear", "quantity": 2, **changed}
    headers = {"Idempotency_Key": key} if key else {}
    status, body = call(f"{shop.url(variant)}/orders", json.dumps(order).encode(), **headers)
    return status, json.loads(body or b"{}")


@BOTH
def test_order_is_in_the_database_and_can_be_read(shop, variant):
    status, order = place(shop, variant)
    assert status == 201
    assert shop.psql(variant, f"SELECT sku, quantity FROM orders WHERE id = {order['id']}") == "pear|2\n"
    assert call(f"{shop.url(variant)}/orders/{order['id']}") == (200, json.dumps(order).encode() + b"\n")


@BOTH
def test_order_that_is_not_cached_comes_from_the_database(shop, variant):
    status, body = call(f"{shop.url(variant)}/orders/7")
    assert (status, json.loads(body)["customer"]) == (200, "ada")
    assert call(f"{shop.url(variant)}/orders/999999")[0] == 404


@BOTH
def test_stock_goes_down_by_what_was_sold_and_never_below_zero(shop, variant):
    shop.psql(variant, "INSERT INTO stock VALUES ('quince', 3) ON CONFLICT (sku) DO UPDATE SET available = 3")
    assert place(shop, variant, sku="quince")[0] == 201
    assert place(shop, variant, sku="quince")[0] == 409
    assert shop.psql(variant, "SELECT available FROM stock WHERE sku = 'quince'") == "1\n"
    assert json.loads(call(f"{shop.url(variant)}/stock/quince")[1]) == {"sku": "quince", "available": 1}


@BOTH
def test_the_same_key_one_after_the_other_buys_once(shop, variant):
    first = place(shop, variant, key=f"once-{variant}")
    again = place(shop, variant, key=f"once-{variant}")
    assert (first[0], again[0]) == (201, 200)
    assert first[1] == again[1]


@BOTH
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"customer": 1, "sku": "pear"}', b'{"customer": "eve", "sku": "pear", "quantity": -1}']
)
def test_malformed_order_is_refused(shop, variant, body):
    assert call(f"{shop.url(variant)}/orders", body)[0] == 400


@BOTH
def test_session_is_needed_and_ends(shop, variant):
    account = f"{shop.url(variant)}/account"
    for seconds in (1, 20):  # on a machine that stood still the shorter session is over at once
        login = json.dumps({"customer": "ada", "seconds": seconds}).encode()
        token = json.loads(call(f"{shop.url(variant)}/login", login)[1])["token"]
        entered = call(account, Authorization=f"Bearer {token}")[0]
        if entered == 200:
            break
    assert entered == 200
    assert call(account, Authorization=f"Bearer x{token}")[0] == 401
    assert call(account)[0] == 401
    until(lambda: call(account, Authorization=f"Bearer {token}")[0] == 401, "the end of the session")


def racing(shop: Shop, variant: str) -> int:
    """How many orders a customer has who asks six times at once with one key."""
    key = f"race-{variant}-{time.monotonic_ns()}"
    threads = [threading.Thread(target=place, args=(shop, variant, key)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return int(shop.psql(variant, f"SELECT count(*) FROM orders WHERE idempotency_key = '{key}'"))


def test_the_fixed_shop_sells_once_when_the_same_key_comes_at_once(shop):
    assert racing(shop, "orders_fixed") == 1


def test_the_first_shop_sells_more_than_once_when_the_same_key_comes_at_once(shop):
    until(lambda: racing(shop, "orders") > 1, "the race")


def test_without_redis_the_first_shop_sells_and_reports_an_error_the_fixed_one_sells(shop):
    shop.stop("redis")
    try:
        sold = shop.psql("orders", "SELECT count(*) FROM orders WHERE customer = 'eve'")
        assert place(shop, "orders")[0] == 500
        assert shop.psql("orders", "SELECT count(*) FROM orders WHERE customer = 'eve'") != sold
        assert place(shop, "orders_fixed")[0] == 201
        assert json.loads(call(f"{shop.url('orders_fixed')}/health")[1])["cache"] == "not used"
    finally:
        shop.start_redis()


def test_a_silent_database_is_given_up_by_the_fixed_shop(shop):
    """The server process is frozen: its kernel still acknowledges packets, it never answers."""
    backends = [int(pid) for pid in shop.psql("orders_fixed", BACKENDS).split()]
    assert backends
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert place(shop, "orders_fixed")[0] == 503
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    until(lambda: place(shop, "orders_fixed")[0] == 201, "an order after the silence")


BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = 'orders_fixed' AND pid <> pg_backend_pid()"


@BOTH
def test_both_shops_find_a_database_that_was_killed_and_came_back(shop, variant):
    shop.stop("postgres")
    assert place(shop, variant)[0] in (500, 503)
    shop.start_postgres()
    until(lambda: place(shop, variant)[0] == 201, "an order after the restart")
