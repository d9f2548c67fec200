"""Stormcell: chaos engineering inside microVMs.

The names below are imported on first use, so that `import stormcell` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stormcell.engine.api import Outcome as Outcome
    from stormcell.engine.api import run as run
    from stormcell.engine.api import run_async as run_async
    from stormcell.sandbox.api import AsyncSandbox as AsyncSandbox
    from stormcell.sandbox.api import Sandbox as Sandbox
    from stormcell.spec.experiment import Experiment as Experiment
    from stormcell.spec.verdict import Verdict as Verdict

__version__ = "0.1.0"

_PUBLIC = {
    "AsyncSandbox": "stormcell.sandbox.api",
    "Experiment": "stormcell.spec.experiment",
    "Outcome": "stormcell.engine.api",
    "Sandbox": "stormcell.sandbox.api",
    "Verdict": "stormcell.spec.verdict",
    "run": "stormcell.engine.api",
    "run_async": "stormcell.engine.api",
}
__all__ = ["AsyncSandbox", "Experiment", "Outcome", "Sandbox", "Verdict", "__version__", "run", "run_async"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'stormcell' has no attribute {name!r}")
