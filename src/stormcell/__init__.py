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
    from stormcell.engine.campaigns.api import CampaignOutcome as CampaignOutcome
    from stormcell.engine.campaigns.api import resume_campaign as resume_campaign
    from stormcell.engine.campaigns.api import resume_campaign_async as resume_campaign_async
    from stormcell.engine.campaigns.api import run_campaign as run_campaign
    from stormcell.engine.campaigns.api import run_campaign_async as run_campaign_async
    from stormcell.engine.chaos import chaos as chaos
    from stormcell.engine.sealed.api import SealedOutcome as SealedOutcome
    from stormcell.engine.sealed.api import replay as replay
    from stormcell.engine.sealed.api import replay_async as replay_async
    from stormcell.engine.sealed.api import run_sealed as run_sealed
    from stormcell.engine.sealed.api import run_sealed_async as run_sealed_async
    from stormcell.sandbox.api import AsyncPool as AsyncPool
    from stormcell.sandbox.api import AsyncSandbox as AsyncSandbox
    from stormcell.sandbox.api import Pool as Pool
    from stormcell.sandbox.api import Sandbox as Sandbox
    from stormcell.spec.experiment import Experiment as Experiment
    from stormcell.spec.verdict import Verdict as Verdict

__version__ = "0.1.0"

_PUBLIC = {
    "AsyncPool": "stormcell.sandbox.api",
    "AsyncSandbox": "stormcell.sandbox.api",
    "CampaignOutcome": "stormcell.engine.campaigns.api",
    "Experiment": "stormcell.spec.experiment",
    "Outcome": "stormcell.engine.api",
    "Pool": "stormcell.sandbox.api",
    "Sandbox": "stormcell.sandbox.api",
    "SealedOutcome": "stormcell.engine.sealed.api",
    "Verdict": "stormcell.spec.verdict",
    "chaos": "stormcell.engine.chaos",
    "replay": "stormcell.engine.sealed.api",
    "replay_async": "stormcell.engine.sealed.api",
    "resume_campaign": "stormcell.engine.campaigns.api",
    "resume_campaign_async": "stormcell.engine.campaigns.api",
    "run": "stormcell.engine.api",
    "run_async": "stormcell.engine.api",
    "run_campaign": "stormcell.engine.campaigns.api",
    "run_campaign_async": "stormcell.engine.campaigns.api",
    "run_sealed": "stormcell.engine.sealed.api",
    "run_sealed_async": "stormcell.engine.sealed.api",
}
__all__ = [
    "AsyncPool", "AsyncSandbox", "CampaignOutcome", "Experiment", "Outcome", "Pool", "Sandbox", "SealedOutcome",
    "Verdict", "__version__", "chaos", "replay", "replay_async", "resume_campaign", "resume_campaign_async", "run",
    "run_async", "run_campaign", "run_campaign_async", "run_sealed", "run_sealed_async",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'stormcell' has no attribute {name!r}")
