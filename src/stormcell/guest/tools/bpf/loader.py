"""Load programs of a compiled object with libbpf, and pin them and their maps: from then on no process is needed.

libbpf reads the kernel's types for the offsets, and the kernel rewrites itself for an attached program: together
0.3-0.6 s under emulation. So a fault does this ahead of its act, with its configuration switched off.
"""

from __future__ import annotations

import ctypes
import os
import pkgutil

from stormcell.guest.tools.bpf import kernel

ROOT = "/sys/fs/bpf/stormcell"
LIBRARY = "libbpf.so.1"
_log: list[str] = []


def place(mark: str) -> str:
    """The folder of a fault's pins. The BPF file system keeps names with dots for itself (kernel/bpf/inode.c)."""
    return f"{ROOT}/{mark.replace('%', '%25').replace('.', '%2e')}"


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY, use_errno=True)
    for name in ("open_mem", "next_program", "next_map"):
        getattr(library, f"bpf_object__{name}").restype = ctypes.c_void_p
    for name in ("bpf_program__name", "bpf_map__name"):
        getattr(library, name).restype = ctypes.c_char_p
    _log.clear()
    library.libbpf_set_print(_PRINT)
    return library


def _keep(level: int, form: bytes, _arguments: int) -> int:
    if level == 0:
        _log.append(form.decode(errors="replace").strip())
    return 0


_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_keep)


def load(mark: str, object_name: str, programs: list[str]) -> None:
    """Load and pin `programs` of guest/bpf/OBJECT.bpf.o unless they are there. Raises OSError."""
    folder = place(mark)
    missing = [name for name in programs if not os.path.exists(f"{folder}/prog_{name}")]
    if not missing:
        return
    if os.path.exists(folder):
        raise ValueError(f"{folder} holds other programs")
    compiled = pkgutil.get_data("stormcell.guest", f"bpf/{object_name}.bpf.o")
    if compiled is None:
        raise FileNotFoundError(2, "no such object", object_name)
    library = _library()
    handle = ctypes.c_void_p(library.bpf_object__open_mem(compiled, ctypes.c_size_t(len(compiled)), None))
    if not handle:
        raise OSError(ctypes.get_errno(), f"{object_name} is no object that libbpf reads")
    try:
        _load(library, handle, programs)
        _pin(library, handle, folder, programs)
    finally:
        library.bpf_object__close(handle)


def _load(library: ctypes.CDLL, handle: ctypes.c_void_p, programs: list[str]) -> None:
    for name, program in _each(library, handle, "program"):
        library.bpf_program__set_autoload(program, ctypes.c_bool(name in programs))
    done = library.bpf_object__load(handle)
    if done != 0:
        said = f" ({_log[-1]})" if _log else ""
        raise OSError(-done, f"the kernel refuses the programs: {os.strerror(-done)}{said}")


def _pin(library: ctypes.CDLL, handle: ctypes.c_void_p, folder: str, programs: list[str]) -> None:
    fresh = f"{folder}%new"
    os.makedirs(fresh, mode=0o700, exist_ok=True)
    for name, item in _each(library, handle, "map"):
        if "." not in name:
            _pin_at(library.bpf_map__fd(item), f"{fresh}/map_{name}")
    for name, program in _each(library, handle, "program"):
        if name in programs:
            _pin_at(library.bpf_program__fd(program), f"{fresh}/prog_{name}")
    os.rename(fresh, folder)


def _pin_at(fd: int, path: str) -> None:
    if os.path.exists(path):  # of a load that was killed
        os.unlink(path)
    kernel.pin(fd, path)


def _each(library: ctypes.CDLL, handle: ctypes.c_void_p, what: str) -> list[tuple[str, ctypes.c_void_p]]:
    found: list[tuple[str, ctypes.c_void_p]] = []
    following = getattr(library, f"bpf_object__next_{what}")
    name_of = getattr(library, f"bpf_{what}__name")
    item = ctypes.c_void_p(following(handle, None))
    while item:
        found.append((name_of(item).decode(), item))
        item = ctypes.c_void_p(following(handle, item))
    return found


def unload(mark: str) -> None:
    """Remove every pin; nothing need be there."""
    for folder in (place(mark), f"{place(mark)}%new"):
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            continue
        for name in sorted(names):  # links first
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
