"""Runs in the guest: clients that say what became of so many connections. Standard library only."""

import errno
import socket
import sys
import time

KEPT: list[socket.socket] = []


def connects(host, port, count, timeout=2, keep=1):
    """How often each outcome came; connections stay open until the end."""
    tell(count, lambda: tcp(host, port, timeout, keep))


def tcp(host, port, timeout, keep):
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.settimeout(timeout)
    made.connect((host, port))
    if keep:
        KEPT.append(made)
    else:
        made.close()


def datagrams(host, port, count, connected=1):
    """UDP sockets, each from a port that the kernel chooses."""

    def one():
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        KEPT.append(made)
        if connected:
            made.connect((host, port))
            made.send(b"x")
        else:
            made.sendto(b"x", (host, port))

    tell(count, one)


def binds(port, count):
    def one():
        made = socket.socket()
        KEPT.append(made)
        made.bind(("127.0.0.1", port))

    tell(count, one)


def tell(count, one):
    said: dict[str, int] = {}
    began = time.monotonic()
    for _ in range(count):
        try:
            one()
            how = "OK"
        except TimeoutError:
            how = "TIMEOUT"
        except OSError as error:
            how = errno.errorcode.get(error.errno or 0, str(error))
        said[how] = said.get(how, 0) + 1
    words = " ".join(f"{how}={said[how]}" for how in sorted(said))
    sys.stdout.write(f"{words} {round((time.monotonic() - began) * 1000)}\n")


def sink(port, backlog, host=""):
    """A server that accepts, says nothing, closes nothing, and listens with a queue of this length."""
    if host:
        listening = socket.create_server((host, port), backlog=backlog)
    else:
        listening = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
    accepted = []
    while True:
        accepted.append(listening.accept())


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    globals()[what](*[int(word) if word.isdigit() else word for word in words])
