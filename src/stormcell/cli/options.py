"""Kinds of command-line values that several commands take."""

from __future__ import annotations

import click


class Duration(click.ParamType[float]):
    """`10m`, `90s`: seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A bare number is refused: its unit would be a guess."""
        from stormcell.spec.units import duration

        if isinstance(value, float):
            return value
        try:
            seconds = duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"'{value}' is not above 0", param, ctx)
        return seconds


DURATION = Duration()


class Pair(click.ParamType[tuple[str, str]]):
    """`KEY=VALUE`, split at the first `=`."""

    def __init__(self, shape: str) -> None:
        self.name = shape

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """As it is to be written."""
        return self.name

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Both sides are text; the key is not empty."""
        if isinstance(value, tuple):
            return value
        key, equals, rest = str(value).partition("=")
        if not key or not equals:
            self.fail(f"'{value}' has not the form {self.name}", param, ctx)
        return key, rest
