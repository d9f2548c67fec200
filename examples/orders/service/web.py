"""The HTTP side that both variants share: routes, JSON in and out, errors as status codes."""

import json
import logging
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Protocol

Answer = tuple[int, dict[str, Any]]


class Refused(Exception):
    """A request that is answered with this status; nothing is wrong with the service itself."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Service(Protocol):
    def health(self) -> Answer: ...
    def login(self, customer: str, seconds: int) -> Answer: ...
    def account(self, token: str) -> Answer: ...
    def stock(self, sku: str) -> Answer: ...
    def order(self, number: int) -> Answer: ...
    def place(self, customer: str, sku: str, quantity: int, key: str | None) -> Answer: ...


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    service: ClassVar[Service]

    def do_GET(self) -> None:
        match self.path.strip("/").split("/"):
            case ["health"]:
                self.answer(self.service.health)
            case ["account"]:
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                self.answer(lambda: self.service.account(token))
            case ["stock", sku]:
                self.answer(lambda: self.service.stock(sku))
            case ["orders", number] if number.isdecimal():
                self.answer(lambda: self.service.order(int(number)))
            case _:
                self.send(404, {"error": "no such page"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match self.path:
            case "/login":
                self.answer(lambda: self.service.login(*fields(body, customer=str, seconds=900)))
            case "/orders":
                key = self.headers.get("Idempotency-Key")
                self.answer(lambda: self.service.place(*fields(body, customer=str, sku=str, quantity=1), key))
            case _:
                self.send(404, {"error": "no such page"})

    def answer(self, call: Callable[[], Answer]) -> None:
        try:
            status, value = call()
        except Refused as refused:
            status, value = refused.status, {"error": str(refused)}
        except Exception as error:
            logging.exception("%s %s", self.command, self.path)
            status, value = 500, {"error": type(error).__name__}
        self.send(status, value)

    def send(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode() + b"\n"
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # the client has gone; what was done stays done

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: nginx writes the access log."""


def fields(body: bytes, **wanted: Any) -> list[Any]:
    """The named fields of a JSON object. A type means "required", a value is the default and gives the type."""
    try:
        given = json.loads(body)
    except ValueError:
        raise Refused(400, "the body is not JSON") from None
    found = []
    for name, want in wanted.items():
        kind, default = (want, None) if isinstance(want, type) else (type(want), want)
        value = given.get(name, default) if isinstance(given, dict) else None
        if type(value) is not kind or (kind is int and not 0 < value < 1_000_000):
            raise Refused(400, f"{name} is missing or wrong")
        found.append(value)
    return found


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def serve(service: Service, port: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    Handler.service = service
    Server(("127.0.0.1", port), Handler).serve_forever()
