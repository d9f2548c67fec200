"""PostgreSQL for the fixed variant: a small pool in which every wait has an end."""

import select
import threading
import time
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ, set_wait_callback
from web import Refused

CONNECTIONS = 8
ANSWER_SECONDS = 2.0
FREE_CONNECTION_SECONDS = 1.0


class TooLate(psycopg2.OperationalError):
    """The database did not answer in time. Whether a statement was carried out is not known."""


def wait(connection: Any) -> None:
    """Wait for the server, for one connect or one statement, at most ANSWER_SECONDS.

    libpq's connect_timeout ends with the handshake and the server's statement_timeout cannot reach a client
    whose packets are lost; this bounds both. When it raises, psycopg2 closes the connection.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    while (state := connection.poll()) != POLL_OK:
        sockets = [connection.fileno()]
        reading, writing = (sockets, []) if state == POLL_READ else ([], sockets)
        left = deadline - time.monotonic()
        if left <= 0 or not any(select.select(reading, writing, [], left)):
            raise TooLate(f"no answer from the database in {ANSWER_SECONDS} s")


set_wait_callback(wait)


class Database:
    def __init__(self, dsn: str) -> None:
        self.dsn = f"{dsn} options='-c statement_timeout={round(ANSWER_SECONDS * 1000)}'"
        self.slots = threading.BoundedSemaphore(CONNECTIONS)
        self.idle: list[Any] = []

    def query(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of one statement, which must be safe to repeat: it runs again if a pooled connection was dead."""
        if not self.slots.acquire(timeout=FREE_CONNECTION_SECONDS):
            raise Refused(503, "the database is busy")
        try:
            return self.run(sql, values)
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise Refused(503, f"the database does not answer: {error}".strip()) from error
        finally:
            self.slots.release()

    def run(self, sql: str, values: Any) -> list[tuple[Any, ...]]:
        try:
            pooled = self.idle.pop()
        except IndexError:
            pooled = None
        if pooled is not None:
            try:
                return self.on(pooled, sql, values)
            except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
                if isinstance(error, TooLate) or not pooled.closed:
                    raise  # it is late, or it said no: a second try would only be the same again
                self.idle.clear()  # the server went away, and with it the other end of all of these
        fresh = psycopg2.connect(self.dsn)
        fresh.autocommit = True
        return self.on(fresh, sql, values)

    def on(self, connection: Any, sql: str, values: Any) -> list[tuple[Any, ...]]:
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return list(cursor.fetchall())
        finally:
            if not connection.closed:
                self.idle.append(connection)
