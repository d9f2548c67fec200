"""Sealed runs repeated, and whether they come out as the same bits: `python -m bench determinism FOLDER`.

Each experiment of the folder is run once, then replayed many times, each time by a process of its own, several at
once, with busy loops beside them, and with a hostile scheduler if that is asked for. Every digest is written down at
once (JSON lines), a summary at the end. Exit code 0 when every replay is identical, 1 when one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.noise import busy, hostile
from stormcell.machine.host import find_qemu

COMMAND = (sys.executable, "-m", "stormcell", "run", "--json")
LONGEST_S = 3600.0
WORDS = 2000
"""Characters of what a failed command said."""


@dataclass(frozen=True)
class Seen:
    """One replay. `difference` says what differed, or why there was nothing to compare."""

    experiment: str
    replay: int
    identical: bool
    events_sha256: str
    guest_seconds: float
    host_seconds: float
    difference: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m bench determinism", description=__doc__)
    parser.add_argument("folder", type=Path, help="of experiments (*.yaml), or one experiment")
    parser.add_argument("--replays", type=int, default=50, help="of each experiment (50)")
    parser.add_argument("--jobs", type=int, default=2, help="replays at once (2)")
    parser.add_argument("--busy", type=int, default=2, help="busy loops beside them (2)")
    parser.add_argument("--hostile", action="store_true", help="stop QEMU, move it, slow its threads, at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "determinism.json")
    asked = parser.parse_args(arguments)
    files = sorted(asked.folder.glob("*.yaml")) if asked.folder.is_dir() else [asked.folder]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    raw = asked.out.with_suffix(".jsonl")
    found = []
    with busy(asked.busy), hostile() if asked.hostile else nullcontext(), raw.open("a") as lines:
        for file in files:
            found.append(_experiment(file, asked, lines))
            summary = {**_conditions(asked), "experiments": found}
            asked.out.write_text(json.dumps(summary, indent=1) + "\n")
    same, total = (sum(one[key] for one in found) for key in ("identical", "replays"))
    print(f"\n{same} of {total} replays identical")
    return 0 if same == total else 1


def _conditions(asked: argparse.Namespace) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "qemu": find_qemu().version,
        "at_once": asked.jobs,
        "busy_loops": asked.busy,
        "hostile": asked.hostile,
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def _experiment(file: Path, asked: argparse.Namespace, lines: Any) -> dict[str, Any]:
    recorded = _command("--sealed", "--seed", str(asked.seed), str(file))
    run = (recorded.get("results") or [{}])[0]
    if not run.get("sealed"):
        raise SystemExit(f"{file.name} was not run: {json.dumps(recorded)[:WORDS]}")
    folder, sealed = str(run["folder"]), run["sealed"]

    def again(number: int) -> Seen:
        seen = _seen(file.stem, number, _command("--replay", folder))
        print(json.dumps({"recorded": sealed["events_sha256"], **asdict(seen)}), file=lines, flush=True)
        return seen

    with ThreadPoolExecutor(asked.jobs) as pool:
        replays = list(pool.map(again, range(1, asked.replays + 1)))
    found = _summary(file.stem, run, replays)
    print(_row(found), flush=True)
    for seen in replays:
        if not seen.identical:
            print(f"    replay {seen.replay}: {seen.difference}", flush=True)
    return found


def _command(*arguments: str) -> dict[str, Any]:
    """What it printed as JSON, or why it printed none."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=LONGEST_S, check=False, stdin=subprocess.DEVNULL
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"exit_code": done.returncode, "said": done.stderr[-WORDS:]}


def _seen(name: str, number: int, replay: Mapping[str, Any]) -> Seen:
    if "identical" not in replay:
        return Seen(name, number, False, "", 0.0, 0.0, f"exit code {replay.get('exit_code')}: {replay.get('said')}")
    sealed = replay["outcome"]["sealed"]
    difference = "" if replay["identical"] else json.dumps(replay["difference"])[:WORDS]
    return Seen(
        name,
        number,
        bool(replay["identical"]),
        str(sealed["events_sha256"]),
        sealed["guest_seconds"],
        sealed["host_seconds"],
        difference,
    )


def _summary(name: str, run: Mapping[str, Any], replays: Sequence[Seen]) -> dict[str, Any]:
    host = sorted(seen.host_seconds for seen in replays)
    return {
        "experiment": name,
        "verdict": run["verdict"],
        "events_sha256": run["sealed"]["events_sha256"],
        "snapshot": run["sealed"]["snapshot"],
        "replays": len(replays),
        "identical": sum(seen.identical for seen in replays),
        "digests": [seen.events_sha256 for seen in replays],
        "guest_seconds": run["sealed"]["guest_seconds"],
        "host_seconds": {"first": host[0], "middle": host[len(host) // 2], "last": host[-1]} if host else {},
        "differences": [seen.difference for seen in replays if not seen.identical],
    }


def _row(found: Mapping[str, Any]) -> str:
    host = found["host_seconds"]
    shown = f"{host['first']:.1f} to {host['last']:.1f} s of the host" if host else ""
    return (
        f"{found['experiment']:28} {found['verdict']:9} {found['identical']:4} of {found['replays']:<4} "
        f"{found['events_sha256'][:16]} {found['guest_seconds']:8.2f} s of the guest, {shown}"
    )
