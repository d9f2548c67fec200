"""The catalogue: what can be done to a machine, one small file a kind.

The file name is the kind: `net_delay.py` holds `net.delay`, `memory_global_oom.py` holds `memory.global-oom`. A file
whose name begins with `_` is shared by several kinds. So adding a fault is adding a file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from stormcell.spec.fault import Fault
from stormcell.spec.value import nearest

_NO_KIND = ("docs",)


class Catalogue(Mapping[str, type[Fault]]):
    """Every fault by its kind, in alphabetical order. A kind's file is imported when it is asked for."""

    def __init__(self) -> None:
        names = (module.name for module in pkgutil.iter_modules(__path__))
        self._modules = {_kind(name): name for name in sorted(names) if name[0] != "_" and name not in _NO_KIND}

    def __getitem__(self, kind: str) -> type[Fault]:
        module = import_module(f"{__name__}.{self._modules[kind]}")
        return next(
            item
            for item in vars(module).values()
            if isinstance(item, type) and issubclass(item, Fault) and item.__dict__.get("kind") == kind
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __contains__(self, kind: object) -> bool:
        return kind in self._modules


def _kind(module: str) -> str:
    family, _, rest = module.partition("_")
    return f"{family}.{rest.replace('_', '-')}"


CATALOGUE: Mapping[str, type[Fault]] = Catalogue()
"""Every fault by its kind."""


def parse(mapping: Mapping[str, Any]) -> Fault:
    """The fault that a spec's `fault` mapping describes. Raises ValidationError; its locations start in the mapping."""
    kind = mapping.get("kind")
    if not isinstance(kind, str) or kind not in CATALOGUE:
        error = PydanticCustomError(
            "unknown_kind",
            "there is no fault '{kind}'; {hint}",
            {"kind": str(kind), "hint": f"{nearest(str(kind), CATALOGUE)} (`stormcell faults` lists them all)"},
        )
        raise ValidationError.from_exception_data("fault", [InitErrorDetails(type=error, loc=("kind",), input=kind)])
    if reason := CATALOGUE[kind].unavailable:
        error = PydanticCustomError(
            "unavailable", "{kind} is unavailable here: {reason}", {"kind": kind, "reason": reason}
        )
        raise ValidationError.from_exception_data("fault", [InitErrorDetails(type=error, loc=("kind",), input=kind)])
    return CATALOGUE[kind].model_validate({key: value for key, value in mapping.items() if key != "kind"})


__all__ = ["CATALOGUE", "parse"]
