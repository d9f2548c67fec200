"""The `exec` request: a command of the host's, in a cgroup and session of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stormcell.guest import spawn
from stormcell.guest.job import Job, ending
from stormcell.guest.launch import Launcher
from stormcell.guest.port import Port
from stormcell.guest.spawn import Command, NotStarted
from stormcell.guest.trees import Forest, Tree
from stormcell.guest.wire import WireError

LONGEST = 7 * 24 * 3600
"""Seconds."""


def start(port: Port, stream: int, request: Mapping[str, Any], forest: Forest, launcher: Launcher | None) -> Job:
    """Start the command; its answers follow on `stream`. Raises NotStarted, WireError for a request that is none."""
    command = _command(request)
    timeout = request.get("timeout_s")
    if not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST:
        raise WireError(f"timeout_s must be a number above 0 and at most {LONGEST}")
    try:
        tree = forest.plant()
    except OSError as error:
        raise NotStarted("cgroup", error.errno or 0, f"no cgroup can be made ({error.strerror})") from None
    try:
        child = spawn.spawn_command(command, tree, stdin=bool(request.get("stdin")), launcher=launcher)
    except NotStarted:
        forest.fell(tree)
        raise

    def release(tree: Tree) -> None:
        forest.fell(tree)
        forest.tend()

    name = " ".join(command.argv)
    return Job(port, stream, child, tree, timeout=float(timeout), conclude=ending, release=release, command=name)


def _command(request: Mapping[str, Any]) -> Command:
    argv, shell = request.get("argv"), request.get("shell")
    if isinstance(shell, str) and argv is None:
        argv = ["/bin/sh", "-c", shell]
    if not isinstance(argv, list) or not argv or not all(isinstance(part, str) for part in argv):
        raise WireError("exec takes argv (texts, at least one) or shell (one text)")
    env, cwd, user = request.get("env") or {}, request.get("cwd") or "/", request.get("user")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise WireError("env must be an object of texts")
    if not isinstance(cwd, str) or not isinstance(user, str | None):
        raise WireError("cwd and user must be texts")
    return Command(argv, cwd, env, user)
