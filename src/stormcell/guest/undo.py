"""`stormcell-guest undo FAULT`: put back what a fault did, from its receipt alone."""

from __future__ import annotations

import json
import sys

from stormcell.guest import readings
from stormcell.guest.lifeline import Lifeline
from stormcell.guest.running import Runnery


def main(argv: list[str]) -> int:
    """Prints {fault, ok, outputs}. Exit code 0 when all was undone, 1 when not, 2 when there is no such receipt."""
    if len(argv) != 1:
        sys.stderr.write("usage: stormcell-guest undo FAULT\n")
        return 2
    fault = argv[0]
    try:
        ok, outputs = readings.undo_from_receipt(fault, Runnery(Lifeline(None)).run_all)
    except FileNotFoundError:
        sys.stderr.write(f"stormcell-guest: no receipt of '{fault}': it was never begun, or it is undone\n")
        return 2
    except (OSError, ValueError) as error:
        sys.stderr.write(f"stormcell-guest: the receipt of '{fault}' cannot be read: {error}\n")
        return 2
    sys.stdout.write(json.dumps({"fault": fault, "ok": ok, "outputs": outputs}) + "\n")
    return 0 if ok else 1
