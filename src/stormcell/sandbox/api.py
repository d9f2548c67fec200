"""The public names."""

from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.sandbox.evidence import KillEvidence
from stormcell.sandbox.results import CommandFailed, ExecResult
from stormcell.sandbox.snapshots import Snapshot
from stormcell.sandbox.ssandbox import Sandbox

__all__ = ["AsyncSandbox", "CommandFailed", "ExecResult", "KillEvidence", "Sandbox", "Snapshot"]
