"""The compiled eBPF objects and their manifest: `python -m tests.unit.faults.bpf_objects --write` compiles them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from stormcell.guest import bpf

FOLDER = Path(next(iter(bpf.__path__)))
MANIFEST = FOLDER / "manifest.json"
FLAGS = ("-O2", "-g", "-mcpu=v3", "-target", "bpf", "-Wall", "-Werror", "-Wno-unused", "-fdebug-compilation-dir=.")


def compiler() -> str:
    """`clang 14`, empty when the tools are not on this machine."""
    if shutil.which("clang") is None or shutil.which("llvm-strip") is None:
        return ""
    said = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"clang version (\d+)", said)
    return f"clang {found[1]}" if found else ""


def compiled(source: Path, into: Path) -> bytes:
    """The object of a source, without debug sections (the types that libbpf needs stay) and without a path in it."""
    made = into / f"{source.name.removesuffix('.c')}.o"
    subprocess.run(["clang", *FLAGS, "-c", source.name, "-o", str(made)], cwd=source.parent, check=True)
    subprocess.run(["llvm-strip", "-g", str(made)], check=True)
    return made.read_bytes()


def manifest() -> dict[str, Any]:
    """Digests of what is there."""
    files = sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h"), *FOLDER.glob("*.o")])
    return {"flags": list(FLAGS), "sha256": {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}}


def main(argv: list[str]) -> int:
    """Compile all and write the manifest."""
    if argv != ["--write"] or not compiler():
        sys.stderr.write("usage: python -m tests.unit.faults.bpf_objects --write   (needs clang and llvm-strip)\n")
        return 2
    for source in sorted(FOLDER.glob("*.bpf.c")):
        compiled(source, FOLDER)
    MANIFEST.write_text(json.dumps({"compiler": compiler(), **manifest()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
