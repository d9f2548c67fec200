"""The plans as they are: `python -m tests.unit.faults.golden_plans --write`; read the difference before a commit."""

from __future__ import annotations

import json
import sys
from typing import Any

from stormcell import faults
from tests.unit.faults.fault_cases import GOLDEN, SPECS


def plan_of(name: str) -> dict[str, Any]:
    """The commands of a spec, without what is at its default."""
    return faults.parse(SPECS[name]).plan().model_dump(mode="json", exclude_defaults=True)


def main(argv: list[str]) -> int:
    """Write every golden plan and remove those of no spec."""
    if argv != ["--write"]:
        sys.stderr.write("usage: python -m tests.unit.faults.golden_plans --write\n")
        return 2
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.json"):
        if path.stem not in SPECS:
            path.unlink()
    for name in SPECS:
        (GOLDEN / f"{name}.json").write_text(json.dumps(plan_of(name), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
