"""Tables and styled text on a terminal, or plain in a pipe."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from stormcell.cli.output import colour, safe


class Screen(Console):
    """Shows text as it is: what a guest or a file wrote neither steers the terminal nor becomes an emoji.

    `piped` is the width where there is no terminal: whoever reads a file or a pipe wants whole lines.
    """

    def __init__(self, *, piped: int | None = 1000, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        super().__init__(
            stderr=stderr,
            highlight=False,
            emoji=False,
            no_color=not colour(stream),
            width=None if stream.isatty() else piped,
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich's, without control characters."""
        return super().render_str(safe(text), **options)

    def on_broken_pipe(self) -> None:
        """Passed on: rich's own exit code is 1, which here means `failed`."""
        raise BrokenPipeError
