"""The public names."""

from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.sandbox.evidence import KillEvidence
from stormcell.sandbox.pool import AsyncPool
from stormcell.sandbox.poolsync import Pool
from stormcell.sandbox.results import CommandFailed, ExecResult
from stormcell.sandbox.snapshots import Snapshot
from stormcell.sandbox.ssandbox import Sandbox

__all__ = [
    "AsyncPool",
    "AsyncSandbox",
    "CommandFailed",
    "ExecResult",
    "KillEvidence",
    "Pool",
    "Sandbox",
    "Snapshot",
]
