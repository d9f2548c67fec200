"""Specs of `cpu.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "cpu.limit.period": {"kind": "cpu.limit", "service": "web", "percent": "150%", "period": "20ms", "of": "cpu"},
    "cpu.limit.name": {"kind": "cpu.limit", "name": "redis-server", "percent": "50%"},
    "cpu.slow.crawl": {"kind": "cpu.slow", "port": 8080, "speed": "5%"},
    "cpu.load.alone": {"kind": "cpu.load", "percent": "150%", "workers": 3, "of": "cpu"},
    "cpu.load.cgroup": {"kind": "cpu.load", "cgroup": "/sys/fs/cgroup/other", "percent": "90%"},
    "cpu.steal.all": {"kind": "cpu.steal", "percent": "10%", "period": "100ms"},
    "cpu.steal.user": {"kind": "cpu.steal", "user": "postgres", "percent": "33.3%"},
    "cpu.online.service": {"kind": "cpu.online", "service": "web", "leave": 2},
    "cpu.online.main": {"kind": "cpu.online", "service": "web", "processes": "main", "leave": 1},
}  # fmt: skip
