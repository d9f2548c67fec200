"""KVM or software emulation: decided by a tiny guest that starts or does not, once, and remembered.

That /dev/kvm opens proves nothing: under some hypervisors it even makes a VM whose guest then spins for ever.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from stormcell.machine.argv import CPU, SANDBOX, emulated
from stormcell.machine.durable import write_atomically
from stormcell.machine.host import Qemu, find_qemu, kernel_release, tool, tsc_khz
from stormcell.machine.initramfs import PROBE_LINE, probe_initramfs
from stormcell.machine.kernel import Kernel
from stormcell.machine.model import Accel
from stormcell.machine.process import kill_and_wait
from stormcell.spec.errors import SpecError
from stormcell.spec.home import Home, private_folder

DEADLINE_S = 20.0
VARIABLE = "STORMCELL_ACCEL"
KVM = Path("/dev/kvm")
OUTPUT_BYTES = 64 * 1024


@dataclass(frozen=True)
class Choice:
    """The accelerator, and why, in words for a person; `remedy` is empty where nothing can be mended."""

    accel: Accel
    reason: str
    remedy: str = ""


def forced() -> Choice | None:
    """What the user's environment asks for. Raises SpecError for a word that is neither."""
    match os.environ.get(VARIABLE, ""):
        case "":
            return None
        case "tcg":
            return Choice("tcg", f"software emulation, because {VARIABLE}=tcg asks for it")
        case "kvm":
            return Choice("kvm", f"KVM, because {VARIABLE}=kvm asks for it (not tried)")
        case other:
            raise SpecError(f"'{other}' is no accelerator", where=VARIABLE, remedy="use kvm or tcg, or unset it")


def refused_at_once(kvm: Path = KVM) -> Choice | None:
    """The answer where KVM cannot even be opened; None when a guest must be tried."""
    try:
        os.close(os.open(kvm, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return Choice(
            "tcg", f"software emulation, because {kvm} is not there", "load the kvm module, if this CPU has it"
        )
    except PermissionError:
        return Choice(
            "tcg",
            f"software emulation, because this user may not open {kvm}",
            "adduser USER kvm, then log in again",
        )
    except OSError as error:
        return Choice("tcg", f"software emulation, because {kvm} cannot be opened ({error.strerror})")
    return None


def _memory(home: Home, qemu: Qemu, kernel: Kernel) -> Path:
    key = "\n".join([kernel_release(), qemu.version, qemu.digest, kernel.digest])
    return home.cache / "accel" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def remembered(home: Home, kernel: Kernel) -> Choice | None:
    """The outcome of an earlier try of this host kernel, QEMU and guest kernel."""
    try:
        return Choice(**json.loads(_memory(home, find_qemu(), kernel).read_text()))
    except (OSError, ValueError, TypeError):
        return None


async def choose(home: Home, kernel: Kernel, *, deadline: float = DEADLINE_S) -> Choice:
    """Forced, impossible, remembered, or tried now (at most `deadline` seconds). Raises SpecError, MissingTool."""
    if choice := forced() or refused_at_once() or remembered(home, kernel):
        return choice
    qemu = find_qemu()
    choice = await try_guest(qemu, kernel, deadline=deadline)
    path = _memory(home, qemu, kernel)
    private_folder(path.parent)
    write_atomically(path, json.dumps(asdict(choice), indent=2) + "\n")
    return choice


async def try_guest(qemu: Qemu, kernel: Kernel, *, accel: Accel = "kvm", deadline: float = DEADLINE_S) -> Choice:
    """Boot the tiny guest with `accel` and look for its line; its process is gone when this returns."""
    with tempfile.NamedTemporaryFile(prefix="stormcell-probe-", suffix=".cpio") as initrd:
        initrd.write(probe_initramfs())
        initrd.flush()
        return await _try(_argv(qemu, kernel, accel, Path(initrd.name)), accel, deadline)


def _argv(qemu: Qemu, kernel: Kernel, accel: Accel, initrd: Path) -> list[str]:
    words = ["console=ttyS0", "quiet", "reboot=t", "panic=1", *(emulated(tsc_khz()) if accel == "tcg" else [])]
    # fmt: off
    return [
        # a guest that spins must not outlive us, however we end
        str(tool("setpriv", "util-linux")), "--pdeathsig", "KILL", "--",
        str(qemu.path), "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
        "-sandbox", SANDBOX,
        "-M", "microvm,rtc=on", "-accel", accel, "-cpu", CPU[accel], "-m", "256",
        "-kernel", str(kernel.image), "-initrd", str(initrd), "-append", " ".join(words),
        "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
    ]
    # fmt: on


async def _try(argv: list[str], accel: Accel, deadline: float) -> Choice:
    began = time.monotonic()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    )
    pidfd = os.pidfd_open(process.pid)
    assert process.stdout is not None and process.stderr is not None
    said = b""
    try:
        async with asyncio.timeout(deadline):
            while PROBE_LINE.encode() not in said and len(said) < OUTPUT_BYTES:
                chunk = await process.stdout.read(4096)
                if not chunk:
                    break
                said += chunk
            else:
                if PROBE_LINE.encode() in said:
                    return Choice(accel, f"{accel.upper()}: a test guest started in {time.monotonic() - began:.1f} s")
        words = (await process.stderr.read(4096)).decode(errors="replace").strip().splitlines()
        why = f"QEMU ended: {words[-1][:200]}" if words else "the guest ended without a word"
    except TimeoutError:
        why = f"the guest did not start in {deadline:g} s"
    finally:
        kill_and_wait(pidfd, 30)
        os.close(pidfd)
        await process.wait()
    return Choice("tcg", f"software emulation, because {why}")
