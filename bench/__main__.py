"""Speed, memory and exactness, measured in one run and compared inside it: `python -m bench [PART...]`.

Parts: sandboxes, forks, faults, exactness, campaign, sealed; without one all. Each replaces its part of
bench/results/latest.json. By themselves: `determinism FOLDER` repeats sealed runs (bench/determinism.py), `anywhere`
builds a sealed template three times and replays on an empty home (bench/anywhere.py).
Figures of different machines, or of the same machine on another day, are not comparable; the ratios of one run are.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from bench import anywhere, campaign, determinism, exactness, faults, forks, sandboxes, sealed
from stormcell.machine.host import find_qemu
from stormcell.spec.home import Home
from stormcell.template.build import build
from stormcell.template.store import find

RUNS = int(os.environ.get("BENCH_RUNS", "30"))
RESULTS = Path(__file__).parent / "results" / "latest.json"
PARTS = ("sandboxes", "forks", "faults", "exactness", "campaign", "sealed")
ALONE = {"determinism": determinism.main, "anywhere": anywhere.main}


def main(parts: list[str]) -> int:
    """Measure, print, save. Exit code 2 for a part that is none."""
    if parts and parts[0] in ALONE:
        return ALONE[parts[0]](parts[1:])
    if unknown := set(parts) - set(PARTS):
        sys.stderr.write(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}\n")
        return 2
    home = Home.current()
    shown = lambda p: print(f"  {p.text}", file=sys.stderr)  # noqa: E731  # one line of progress
    template = asyncio.run(build(find("base", home), home=home, progress=shown))
    print(f"{RUNS} runs each, on {os.cpu_count()} cores, {template.shape.accel}, QEMU {find_qemu().version}")
    record: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    record |= {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "qemu": find_qemu().version,
        "acceleration": template.shape.accel,
        "runs": RUNS,
    }
    for part in parts or PARTS:
        if part == "sandboxes":
            record |= asyncio.run(sandboxes.measure(template, RUNS))
        elif part == "forks":
            record["forks"] = asyncio.run(forks.measure(template, RUNS))
        elif part == "faults":
            record["faults"] = record.get("faults", {}) | faults.measure(template)
        elif part == "campaign":
            record["campaign"] = campaign.measure(template)
        elif part == "sealed":
            record["sealed"] = sealed.measure(RUNS)
        else:
            record["exactness"] = exactness.measure(template, RUNS)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
