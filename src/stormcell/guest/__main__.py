"""`python3 -m stormcell.guest SUBCOMMAND ...`, and the entry of the packed guest file."""

from __future__ import annotations

import sys

from stormcell.guest import commands


def main() -> int:
    """Serve the arguments of this process."""
    return commands.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
