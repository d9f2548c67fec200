"""The order service with its four weak decisions mended: read it beside orders.py."""

import json
import os
import time
from pathlib import Path

import psycopg2
from database import Database
from optional_cache import OptionalCache
from tokens import Tokens
from web import Answer, Refused, serve

ORDER_CACHED_SECONDS = 300
STOCK_CACHED_SECONDS = 2

# One statement is one transaction and one round trip, so a slow network is paid once and the lock on the
# stock row is held for the commit alone. The unique key makes a second try find the first one's order.
PLACE = """
WITH placed AS (
    INSERT INTO orders (customer, sku, quantity, idempotency_key)
    VALUES (%(customer)s, %(sku)s, %(quantity)s, %(key)s)
    ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, sku, quantity
), taken AS (
    UPDATE stock SET available = available - placed.quantity FROM placed WHERE stock.sku = placed.sku
)
SELECT id FROM placed
"""


class Orders:
    def __init__(self, dsn: str, cache: str, secret: str) -> None:
        self.database = Database(dsn)
        self.cache = OptionalCache(cache)
        # A session ends by the time that passed since the boot, so it ends with the boot too.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        self.tokens = Tokens(secret + boot, lambda: time.clock_gettime(time.CLOCK_BOOTTIME))

    def health(self) -> Answer:
        self.database.query("SELECT 1")
        return 200, {"database": "ok", "cache": "ok" if self.cache.usable() else "not used"}

    def login(self, customer: str, seconds: int) -> Answer:
        return 200, {"token": self.tokens.issue(customer, seconds), "seconds": seconds}

    def account(self, token: str) -> Answer:
        customer = self.tokens.customer(token)
        rows = self.database.query("SELECT id FROM orders WHERE customer = %s ORDER BY id DESC LIMIT 10", (customer,))
        return 200, {"customer": customer, "orders": [number for (number,) in rows]}

    def stock(self, sku: str) -> Answer:
        cached = self.cache.get(f"stock:{sku}")
        if cached is None:
            rows = self.database.query("SELECT available FROM stock WHERE sku = %s", (sku,))
            if not rows:
                raise Refused(404, "no such article")
            cached = str(rows[0][0])
            self.cache.set(f"stock:{sku}", cached, STOCK_CACHED_SECONDS)
        return 200, {"sku": sku, "available": int(cached)}

    def order(self, number: int) -> Answer:
        cached = self.cache.get(f"order:{number}")
        if cached is not None:
            return 200, json.loads(cached)
        return self.found("id = %s", number)

    def found(self, condition: str, value: int | str) -> Answer:
        rows = self.database.query(f"SELECT id, customer, sku, quantity FROM orders WHERE {condition}", (value,))
        if not rows:
            raise Refused(404, "no such order")
        order = dict(zip(("id", "customer", "sku", "quantity"), rows[0], strict=True))
        self.cache.set(f"order:{order['id']}", json.dumps(order), ORDER_CACHED_SECONDS)
        return 200, order

    def place(self, customer: str, sku: str, quantity: int, key: str | None) -> Answer:
        key = key or os.urandom(16).hex()
        order = {"customer": customer, "sku": sku, "quantity": quantity}
        try:
            rows = self.database.query(PLACE, {**order, "key": key})
        except (psycopg2.errors.CheckViolation, psycopg2.errors.ForeignKeyViolation):
            raise Refused(409, "not in stock") from None
        if not rows:
            return self.found("idempotency_key = %s", key)
        order = {"id": rows[0][0], **order}
        self.cache.set(f"order:{order['id']}", json.dumps(order), ORDER_CACHED_SECONDS)
        return 201, order


if __name__ == "__main__":
    env = os.environ
    serve(Orders(env["ORDERS_DATABASE"], env["ORDERS_CACHE"], env["ORDERS_SECRET"]), int(env["ORDERS_PORT"]))
