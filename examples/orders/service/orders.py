"""The order service as it was first shipped. It works, its tests are green, and a reviewer said yes to it.

Four decisions in it do not stand up to a fault; README.md lists them and orders_fixed.py mends them.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import redis
from tokens import Tokens
from web import Answer, Refused, serve

ORDER_CACHED_SECONDS = 300
STOCK_CACHED_SECONDS = 2
KEY_KEPT_SECONDS = 86_400


class Orders:
    def __init__(self, dsn: str, cache: str, secret: str) -> None:
        # An order is one small row: no need to make the customer wait for the disk.
        self.dsn = f"{dsn} options='-c synchronous_commit=off'"
        self.lock = threading.Lock()
        self.connection: Any = None
        self.cache = redis.Redis.from_url(cache, decode_responses=True)
        self.tokens = Tokens(secret, time.time)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor on the database. psycopg2 connections do not like two transactions at once, hence the lock."""
        with self.lock:
            if self.connection is None or self.connection.closed:
                self.connection = psycopg2.connect(self.dsn)
            with self.connection, self.connection.cursor() as cursor:
                yield cursor

    def health(self) -> Answer:
        with self.transaction() as cursor:
            cursor.execute("SELECT 1")
        self.cache.ping()
        return 200, {"database": "ok", "cache": "ok"}

    def login(self, customer: str, seconds: int) -> Answer:
        return 200, {"token": self.tokens.issue(customer, seconds), "seconds": seconds}

    def account(self, token: str) -> Answer:
        customer = self.tokens.customer(token)
        with self.transaction() as cursor:
            cursor.execute("SELECT id FROM orders WHERE customer = %s ORDER BY id DESC LIMIT 10", (customer,))
            return 200, {"customer": customer, "orders": [number for (number,) in cursor.fetchall()]}

    def stock(self, sku: str) -> Answer:
        cached = self.cache.get(f"stock:{sku}")
        if cached is None:
            with self.transaction() as cursor:
                cursor.execute("SELECT available FROM stock WHERE sku = %s", (sku,))
                row = cursor.fetchone()
            if row is None:
                raise Refused(404, "no such article")
            cached = str(row[0])
            self.cache.set(f"stock:{sku}", cached, ex=STOCK_CACHED_SECONDS)
        return 200, {"sku": sku, "available": int(cached)}

    def order(self, number: int) -> Answer:
        cached = self.cache.get(f"order:{number}")
        if cached is not None:
            return 200, json.loads(cached)
        with self.transaction() as cursor:
            cursor.execute("SELECT id, customer, sku, quantity FROM orders WHERE id = %s", (number,))
            row = cursor.fetchone()
        if row is None:
            raise Refused(404, "no such order")
        order = dict(zip(("id", "customer", "sku", "quantity"), row, strict=True))
        self.cache.set(f"order:{number}", json.dumps(order), ex=ORDER_CACHED_SECONDS)
        return 200, order

    def place(self, customer: str, sku: str, quantity: int, key: str | None) -> Answer:
        if key and (known := self.cache.get(f"placed:{key}")):
            return self.order(int(known))
        with self.transaction() as cursor:
            cursor.execute(
                "UPDATE stock SET available = available - %s WHERE sku = %s AND available >= %s",
                (quantity, sku, quantity),
            )
            if cursor.rowcount == 0:
                raise Refused(409, "not in stock")
            cursor.execute(
                "INSERT INTO orders (customer, sku, quantity, idempotency_key) VALUES (%s, %s, %s, %s) RETURNING id",
                (customer, sku, quantity, key),
            )
            (number,) = cursor.fetchone()
        order = {"id": number, "customer": customer, "sku": sku, "quantity": quantity}
        if key:
            self.cache.set(f"placed:{key}", number, ex=KEY_KEPT_SECONDS)
        self.cache.set(f"order:{number}", json.dumps(order), ex=ORDER_CACHED_SECONDS)
        return 201, order


if __name__ == "__main__":
    env = os.environ
    serve(Orders(env["ORDERS_DATABASE"], env["ORDERS_CACHE"], env["ORDERS_SECRET"]), int(env["ORDERS_PORT"]))
