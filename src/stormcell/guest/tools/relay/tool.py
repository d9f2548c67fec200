"""`stormcell-guest relay`: start, change, show and stop the relay of a fault; trust its authority, and no longer."""

from __future__ import annotations

import json
import os
from typing import Any

from stormcell.guest.tools import background, common
from stormcell.guest.tools.net.conntrack import Conntrack
from stormcell.guest.tools.relay import certificates
from stormcell.guest.tools.relay.flow import Relay
from stormcell.guest.tools.relay.orders import Ledger, Orders
from stormcell.guest.tools.relay.tlsface import Face


def start(fault: str, port: str, mark: str, orders: str) -> None:
    """The relay listens on `port` when this returns, and its authority is trusted where that was asked for."""
    ledger = Ledger(Orders.of(json.loads(orders)))
    face = Face(ledger.orders, _name(fault)) if ledger.orders.do == "certificate" else None
    relay = Relay(ledger, int(port), int(mark), face)
    if ledger.orders.trust and face is not None and face.issuer is not None:
        _trust(fault, ledger.orders.trust, certificates.pem("CERTIFICATE", face.issuer.certificate))
    background.start(fault, relay.run, ledger.answer)


def change(fault: str, orders: str) -> None:
    """Other orders, in place."""
    if background.ask(fault, {"change": json.loads(orders)}) is None:
        raise LookupError("the relay of this fault does not run")


def stop(fault: str, port: str) -> dict[str, Any]:
    """End the relay, and with it every connection through it; forget the redirections of what is left of them."""
    background.stop(fault)
    table = Conntrack()
    try:
        return {"forgotten": table.forget_redirected(int(port))}
    finally:
        table.close()


def show(fault: str, trust: str = "") -> dict[str, Any]:
    """What the relay does and did, and whether its authority is trusted."""
    told = background.ask(fault, {"show": True})
    trusted = _name(fault) in (common.read_text(trust) or "") if trust else False
    if told is None:
        return {"running": False, "left": background.is_there(fault), "trusted": trusted}
    return {"running": True, "trusted": trusted, **told}


def distrust(fault: str, path: str) -> None:
    """Take our authority out of the file; nothing else in it changes. It need not be there."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        return
    begin, end = _fences(fault)
    kept, _, rest = text.partition(begin)
    _, found, behind = rest.partition(end)
    if found:
        _write(path, kept + behind)


def _trust(fault: str, path: str, authority: str) -> None:
    if not os.path.isfile(path):
        raise LookupError(f"there is no file {path} in which authorities are listed")
    begin, end = _fences(fault)
    with open(path, "a", encoding="utf-8", newline="") as file:
        file.write(begin + authority + end)


def _write(path: str, text: str) -> None:
    with open(path, "r+", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
        file.truncate()


def _name(fault: str) -> str:
    return f"Stormcell fault {fault}"


def _fences(fault: str) -> tuple[str, str]:
    return f"\n# {_name(fault)} begins\n", f"# {_name(fault)} ends\n"


def main(argv: list[str]) -> int:
    """`relay start|change|show|stop|distrust`."""
    verbs: dict[str, common.Verb] = {
        "start": start,
        "change": change,
        "show": show,
        "stop": stop,
        "distrust": distrust,
    }
    return common.serve("relay", verbs, argv)
