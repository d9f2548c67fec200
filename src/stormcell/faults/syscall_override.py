"""`syscall.override`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented
from stormcell.spec.fault import Needs


class SyscallOverride(Documented):
    """Any kernel function on the error injection list returns an errno (bpf_override_return)."""

    kind = "syscall.override"
    needs = Needs()
    counts = "calls whose result was overridden"
    proves = "hits per process in a map of the program"
    example: ClassVar[dict[str, Any]] = {"kind": "syscall.override", "function": "__x64_sys_openat", "errno": "EACCES"}
    unavailable = (
        "bpf_override_return needs a kernel with CONFIG_FUNCTION_ERROR_INJECTION and CONFIG_BPF_KPROBE_OVERRIDE, and "
        "the guest's kernel is built without them; syscall.errno does most of it through the security hooks"
    )

    function: str
    """A function on the kernel's error injection list."""
    errno: str
    """What it returns."""
