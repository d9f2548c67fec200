"""The installed command, run as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("stormcell")


def stormcell(*arguments: str | Path, home: Path | None = None, path: str = "", timeout: float = 280, **more: Any):
    """Run to the end. `home` and `path` replace the user's; standard input is empty unless given."""
    environment = {**os.environ, "NO_COLOR": "1"}
    if path:
        environment["PATH"] = path
    if home is not None:
        environment["STORMCELL_HOME"] = str(home)
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment,
        **{"stdin": subprocess.DEVNULL, **more},
    )


def json_of(done: subprocess.CompletedProcess[str]) -> Any:
    """Standard output as one JSON document."""
    return json.loads(done.stdout)
