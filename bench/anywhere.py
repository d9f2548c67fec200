"""A sealed template built three times, and a replay from a few KB on a home without any cache.

`python -m bench anywhere [--user NAME]`: each home is empty at its beginning, so that kernel, image and template are
made anew: once quietly, once as another user (root can ask for one), once under load. All must come out as the same
bytes. Then a run of the first home is copied without its event log, and repeated on a fourth empty home. 10 minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.noise import busy, hostile

LONGEST_S = 3600.0
PYTHON = "/usr/bin/python3"
"""For another user, who may not be let to ours; our packages come along, if it is of the same version."""
SOURCE = Path(__file__).parents[1]
BUILD = """
import asyncio, json
from stormcell.spec.home import Home
from stormcell.template.sealed import build_sealed
from stormcell.template.store import find
home = Home.current()
template = asyncio.run(build_sealed(find("base", home), home=home))
print(json.dumps({"folder": str(template.folder), "digest": template.digest, "snapshot": template.snapshot,
                  "image": template.inputs["image"], "kernel": template.inputs["kernel"]}))
"""
EXPERIMENT = {
    "name": "anywhere",
    "template": "base",
    "setup": [{"run": "head -c 16 /dev/urandom | sha256sum; cat /proc/interrupts"}],
    "steady_state": [
        {
            "name": "echo",
            "command": {"run": "ping -c 50 -i 0.05 -W 1 -q 127.0.0.1; true", "number": "transmitted, ([0-9]+)"},
            "expect": {"number": ">= 1"},
        }
    ],
    "fault": {"kind": "net.loss", "device": "lo", "loss": "30%"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when all are equal, 1 when something is not."""
    parser = argparse.ArgumentParser(prog="python -m bench anywhere", description=__doc__)
    parser.add_argument("--user", help="builds the second one; only root can choose")
    parser.add_argument("--busy", type=int, default=3, help="busy loops beside the third build (3)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "anywhere.json")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as place:
        root = Path(place)
        root.chmod(0o711)
        other = "as another user" if asked.user else "as the same user"
        builds = [
            _built("quiet", root / "one"),
            _built(other, root / "a longer name of a folder", user=asked.user),
            _built("under load", root / "three", loops=asked.busy),
        ]
        equal = all(
            build[key] == builds[0][key] for build in builds for key in ("image", "snapshot", "state", "digest")
        )
        replay = _replayed(root)
    found = {"date": time.strftime("%Y-%m-%d"), "builds": builds, "equal": equal, "replay": replay}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    same = bool(replay["identical"])
    print(f"three builds {'equal' if equal else 'DIFFERENT'}; replay {'identical' if same else 'DIFFERENT'}")
    return 0 if equal and same else 1


def _built(how: str, home: Path, *, user: str | None = None, loops: int = 0) -> dict[str, Any]:
    """The base template on an empty home: digests, seconds."""
    home.mkdir()
    if user is not None:
        shutil.chown(home, user)
    began = time.monotonic()
    with ExitStack() as load:
        if loops:
            load.enter_context(busy(loops))
            load.enter_context(hostile())
        found: dict[str, Any] = json.loads(_python(home, ["-c", BUILD], user))
    state = Path(found.pop("folder")) / "state"
    found |= {
        "how": how,
        "state": hashlib.sha256(state.read_bytes()).hexdigest(),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(f"{how:24} image {found['image'][:16]}  memory {found['snapshot'][:16]}  devices {found['state'][:16]}  "
          f"{found['seconds']:.0f} s", flush=True)  # fmt: skip
    return found


def _replayed(root: Path) -> dict[str, Any]:
    """A run of the first home, repeated on an empty one from what is small of it."""
    file = root / "anywhere.yaml"
    file.write_text(json.dumps(EXPERIMENT))
    run = json.loads(_python(root / "one", ["-m", "stormcell", "run", "--sealed", "--seed", "11", "--json", str(file)]))
    result = run["results"][0]
    travels = root / "travels"
    shutil.copytree(result["folder"], travels, ignore=shutil.ignore_patterns("events.jsonl", "console.log"))
    size = sum(path.stat().st_size for path in travels.iterdir())
    (root / "empty").mkdir()
    began = time.monotonic()
    again = json.loads(_python(root / "empty", ["-m", "stormcell", "run", "--replay", str(travels), "--json"]))
    seconds = time.monotonic() - began
    print(f"replay of {size / 1000:.1f} kB on an empty home: {seconds:.0f} s", flush=True)
    return {
        "verdict": result["verdict"],
        "identical": again["identical"],
        "events_sha256": [result["sealed"]["events_sha256"], again["outcome"]["sealed"]["events_sha256"]],
        "bytes_that_travel": size,
        "seconds": round(seconds, 1),
    }


def _python(home: Path, arguments: Sequence[str], user: str | None = None) -> bytes:
    """What it printed. Raises SystemExit with what it said when it printed nothing."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    paths = os.pathsep.join([str(SOURCE / "src"), str(SOURCE), *packages])
    environment = {**os.environ, "STORMCELL_HOME": str(home), "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [PYTHON if user else sys.executable, *arguments],
        env=environment | ({"HOME": str(home)} if user else {}),
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
        cwd="/",
    )
    if not done.stdout:
        raise SystemExit(f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-3000:]}")
    return done.stdout
