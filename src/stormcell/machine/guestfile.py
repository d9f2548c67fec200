"""stormcell.guest as one file for the guest: a zip that Python runs, the same bytes from the same sources."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import stormcell.guest

MAIN = "import sys\nfrom stormcell.guest.commands import main\nsys.exit(main(sys.argv[1:]))\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


def guest_sources(package: Path | None = None) -> dict[str, bytes]:
    """Name in the archive -> content: the package, an empty parent package, and the start."""
    root = package or Path(next(iter(stormcell.guest.__path__)))
    files = {
        f"stormcell/guest/{path.relative_to(root)}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix in {".py", ".json", ".o"}
    }
    return {**files, "stormcell/__init__.py": b"", "__main__.py": MAIN.encode()}


def guest_pyz(package: Path | None = None) -> bytes:
    """The archive: stored, sorted, without times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(guest_sources(package).items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # unix, also where the host is not
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
