"""Text of others, made harmless for whoever shows it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Without what steers a terminal or turns the direction of reading; every stream can encode the rest.

    Line feeds and tabs stay. What is taken out is named: `\\x1b`, `\\u202e`.
    """
    if text.isprintable():
        return text
    return text.translate({ord(c): _named(ord(c)) for c in set(text) if c not in "\n\t" and not c.isprintable()})


def clipped(text: str, limit: int) -> str:
    """At most `limit` characters of it; what was left out is counted."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit:,} more characters)"


def _named(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
