"""A client of a Redis that Sentinel watches: it numbers its writes and keeps what was acknowledged.

It asks Sentinel for the master, as redis-py does it, and writes there for as long as its connection holds. It adds
NODE:N to a set and, once Redis has answered, appends the time and NODE:N to a file of its own. With `--wait 1` it
also asks Redis whether one replica has it already (WAIT), and takes a write for acknowledged only then.
"""

import argparse
import time
from pathlib import Path

import redis
from redis.sentinel import Sentinel

NODES = ("a", "b", "c")
PATIENCE = 0.5
"""Seconds that it waits for an answer."""


def write(node: str, every: float, wait: int) -> None:
    """Write, keep what was acknowledged, pause; for ever. Its own node's Sentinel is asked first."""
    order = [node, *(name for name in NODES if name != node)]
    sentinels = Sentinel([(name, 26379) for name in order], socket_timeout=PATIENCE)
    master = sentinels.master_for("mymaster", socket_timeout=PATIENCE)
    number = 0
    with Path(f"/var/lib/clients/{node}").open("a", buffering=1) as kept:
        while True:
            number += 1
            try:
                master.sadd("writes", f"{node}:{number}")
                if not wait or master.wait(wait, int(PATIENCE * 1000)) >= wait:
                    kept.write(f"{time.monotonic():.3f} {node}:{number}\n")
            except redis.RedisError as error:
                print(f"{time.monotonic():.3f} {node}:{number} {type(error).__name__}: {error}", flush=True)
            time.sleep(every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("node", choices=NODES)
    parser.add_argument("--every", type=float, default=0.1, help="seconds between writes")
    parser.add_argument("--wait", type=int, default=0, help="replicas that must have a write, too")
    given = parser.parse_args()
    write(given.node, given.every, given.wait)


main()
