"""PostgreSQL, Redis and both variants of the shop for real, on loopback, as children of the test run.

The packages are those of the guest. Where they are not installed these tests are skipped: there the guest tests
and the experiments are the ones that run the shop.
"""

import contextlib
import importlib.util
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders"
POSTGRES = "/usr/lib/postgresql/15/bin"
PYTHON = "/usr/bin/python3"


def free_ports(count: int) -> list[int]:
    """Different ones: all are taken before the first is let go."""
    with contextlib.ExitStack() as taken:
        listeners = [taken.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in listeners]


def missing() -> str | None:
    for program in (f"{POSTGRES}/postgres", "/usr/bin/redis-server", PYTHON):
        if not Path(program).exists():
            return f"{program} is not installed"
    done = subprocess.run([PYTHON, "-c", "import psycopg2, redis"], capture_output=True, check=False)
    return None if done.returncode == 0 else "python3-psycopg2 or python3-redis is not installed"


@dataclass
class Shop:
    folder: Path
    ports: dict[str, int]
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def unprivileged(self) -> list[str]:
        """PostgreSQL refuses to run as root."""
        return ["setpriv", "--reuid=nobody", "--clear-groups", "--"] if os.geteuid() == 0 else []

    def start(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            environment = {**os.environ, **(env or {})}
            self.children[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self, name: str) -> None:
        child = self.children.pop(name)
        child.kill()
        child.wait(30)

    def start_postgres(self) -> None:
        listen = ["-c", "listen_addresses=127.0.0.1", "-p", str(self.ports["postgres"]), "-k", f"{self.folder}/run"]
        self.start("postgres", [*self.unprivileged(), f"{POSTGRES}/postgres", "-D", f"{self.folder}/pg", *listen])
        until(lambda: self.psql("postgres", "SELECT 1") == "1\n", "PostgreSQL")

    def start_redis(self) -> None:
        listen = ["--bind", "127.0.0.1", "--port", str(self.ports["redis"])]
        self.start("redis", ["/usr/bin/redis-server", *listen, "--save", "", "--dir", f"{self.folder}/run"])
        until(lambda: connects(self.ports["redis"]), "Redis")

    def start_service(self, variant: str) -> None:
        """`orders` or `orders_fixed`: file, database and port have the same name."""
        database = f"host=127.0.0.1 port={self.ports['postgres']} dbname={variant} user=orders"
        env = {
            "ORDERS_PORT": str(self.ports[variant]),
            "ORDERS_DATABASE": database,
            "ORDERS_CACHE": f"redis://127.0.0.1:{self.ports['redis']}/{int(variant == 'orders_fixed')}",
            "ORDERS_SECRET": "secret",
        }
        self.start(variant, [PYTHON, f"{EXAMPLE}/service/{variant}.py"], env)
        until(lambda: call(f"{self.url(variant)}/health")[0] == 200, variant)

    def url(self, variant: str) -> str:
        return f"http://127.0.0.1:{self.ports[variant]}"

    def psql(self, database: str, sql: str) -> str:
        command = [
            f"{POSTGRES}/psql",
            "-X",
            "-At",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.ports["postgres"]),
            "-U",
            "orders",
        ]
        done = subprocess.run([*command, "-d", database, "-c", sql], capture_output=True, text=True, check=False)
        return done.stdout


def call(url: str, data: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body; status 0 when nobody answered."""
    request = urllib.request.Request(url, data, {name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def connects(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come up"
        time.sleep(0.1)


def module(name: str) -> ModuleType:
    """A file of the example, which is no package."""
    path = EXAMPLE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(Path(name).name, path)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
