"""The public names."""

from stormcell.sandbox.asandbox import AsyncSandbox

__all__ = ["AsyncSandbox"]
