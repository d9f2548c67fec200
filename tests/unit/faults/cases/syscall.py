"""Specs of `syscall.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "syscall.errno.sockets": {
        "kind": "syscall.errno", "name": "curl", "call": ["send", "connect"], "errno": "ETIMEDOUT",
        "address": ["10.0.0.0/8", "fd00::7"], "remote_port": 443, "every": 3, "limit": 20},
    "syscall.errno.path": {
        "kind": "syscall.errno", "user": "www-data", "call": ["write", "create"], "errno": "ENOSPC",
        "path": "/srv/up loads", "rate": "0.5%"},
    "syscall.errno.listener": {
        "kind": "syscall.errno", "port": 80, "call": "accept", "errno": "EMFILE", "local_port": 80},
    "syscall.errno.main": {
        "kind": "syscall.errno", "service": "web", "processes": "main", "call": "fork", "errno": "EWOULDBLOCK"},
    "syscall.errno.cgroup": {
        "kind": "syscall.errno", "cgroup": "/sys/fs/cgroup/other/group", "call": ["mmap", "thread"], "errno": "ENOMEM"},
    "syscall.errno.pid": {"kind": "syscall.errno", "pid": 77, "call": "exec", "errno": "E2BIG"},
    "syscall.delay.path": {
        "kind": "syscall.delay", "user": "nobody", "call": ["write", "fsync"], "delay": "1.5s", "jitter": "300ms",
        "rate": "10%", "path": "/srv/x"},
    "syscall.delay.main": {
        "kind": "syscall.delay", "service": "web", "processes": "main", "call": "poll", "delay": "10ms", "limit": 4},
    "syscall.seccomp.commands": {
        "kind": "syscall.seccomp", "call": ["getrandom", "open", "io_uring_setup"], "errno": "EAGAIN", "rate": "12.5%",
        "seed": 7, "limit": 100},
    "syscall.seccomp.slow": {
        "kind": "syscall.seccomp", "service": "web", "from_start": True, "call": ["read", "openat"], "exact": True,
        "delay": "20ms", "every": 4},
}  # fmt: skip
