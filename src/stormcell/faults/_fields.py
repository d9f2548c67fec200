"""Parameters that several faults share. Each reads what people write and refuses what no command could mean.

What passes here ends up in argument lists and in the batch input of tc, ip and nft, so every pattern is a whitelist.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from stormcell.spec.fault import Fault
from stormcell.spec.nodes import NodeName
from stormcell.spec.units import duration_text, size, size_text

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,63}\Z")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%\Z")


class Documented(Fault):
    """A fault whose fields are described by the docstrings below them; the docs and the schema show these."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    def params(self) -> dict[str, Any]:
        """As a spec would write them: without what is not set."""
        dumped = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {key: value for key, value in dumped.items() if value != []}


class Placed(Documented):
    """A fault that can be for one node of an experiment: its commands run there."""

    node: NodeName | None = None
    """The node in which it acts: devices, names, ports, paths and processes are that node's. Without one they are the
    machine's."""


def several(value: object) -> tuple[str, ...]:
    """One text or a list of them, none twice. Raises ValueError."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    items = [item for item in given if isinstance(item, str)]
    if not items or len(items) != len(given):
        raise ValueError("write one text or a list of them")
    if len(set(items)) != len(items):
        raise ValueError(f"the same entry twice in {', '.join(items)}")
    return tuple(items)


def _device(value: object) -> tuple[str, ...]:
    for name in (names := several(value)):
        if not _DEVICE.match(name):
            raise ValueError(f"'{name}' is no device name; write for example eth0 or lo")
    return names


def _address(value: object) -> tuple[str, ...]:
    return tuple(_network(text) for text in several(value))


def _network(text: str) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        pass
    else:
        if network.prefixlen == 0:
            raise ValueError(f"'{text}' is every address; leave it out")
        return str(network.network_address if network.num_addresses == 1 else network)
    try:
        wider = ipaddress.ip_interface(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is no address; write for example 10.0.2.2, 10.0.0.0/8 or fd00::/8, and a name into 'host'"
        ) from None
    raise ValueError(f"'{text}' is one host with a network's length; write {wider.ip} or {wider.network}")


def one_or_list(items: tuple[str, ...]) -> str | list[str]:
    """As people write it."""
    return items[0] if len(items) == 1 else list(items)


def _texts(*examples: str) -> WithJsonSchema:
    text = {"type": "string", "examples": list(examples)}
    return WithJsonSchema({"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]})


Devices = Annotated[
    tuple[str, ...],
    BeforeValidator(_device),
    PlainSerializer(one_or_list, return_type=str | list[str]),
    _texts("eth0", "lo"),
]
"""One network device or a list of them."""

Addresses = Annotated[
    tuple[str, ...],
    BeforeValidator(_address),
    PlainSerializer(one_or_list, return_type=str | list[str]),
    _texts("10.0.2.2", "fd00::/8"),
]
"""IPv4 and IPv6 addresses or networks."""

_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?\Z")


def _host(value: object) -> tuple[str, ...]:
    names = several(value)
    for name in names:
        if not _HOST.match(name) or name.replace(".", "").isdigit():
            raise ValueError(f"'{name}' is no host name; write for example db.example (addresses go into 'address')")
    return names


HostNames = Annotated[
    tuple[str, ...],
    BeforeValidator(_host),
    PlainSerializer(one_or_list, return_type=str | list[str]),
    _texts("db.example"),
]
"""Names that the guest looks up."""

Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
"""1 to 65535."""


def _named(what: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if not _NAME.match(name):
            raise ValueError(f"'{name}' is no {what}; letters, digits and _ . : @ + - are allowed")
        return name

    return check


ServiceName = Annotated[str, AfterValidator(_named("name of a service"))]
"""A service of the template."""

UserName = Annotated[str, AfterValidator(_named("name of a user"))]
"""A user of the guest."""


def _path(path: str) -> str:
    if not path.startswith("/") or "\0" in path or "\n" in path or ".." in path.split("/"):
        raise ValueError(f"'{path}' is no absolute path without '..'; write for example /var/lib/postgresql")
    return path.rstrip("/") or "/"


GuestPath = Annotated[str, AfterValidator(_path)]
"""An absolute path in the guest."""


def _rest(count: Callable[[object], int], text: Callable[[int], str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        share = _SHARE.match(value.strip()) if isinstance(value, str) else None
        if share is None:
            return text(count(value))
        if not float(share[1]) < 100:
            raise ValueError(f"'{value}' would leave everything free; a percentage is below 100%")
        return f"{float(share[1]):g}%"

    return read


def _bytes(value: object) -> int:
    if (count := size(value)) < 0:
        raise ValueError(f"'{value}' is out of range; a size is not negative")
    return count


def _whole(value: object) -> int:
    if isinstance(value, bool) or not str(value).isascii() or not str(value).isdigit():
        raise ValueError(f"'{value}' is no number of files; write for example 0, 100 or 5%")
    return int(str(value))


FreeSpace = Annotated[
    str, BeforeValidator(_rest(_bytes, size_text)), WithJsonSchema({"type": "string", "examples": ["64KiB", "5%"]})
]
"""A size, or a percentage of the file system."""

FreeInodes = Annotated[
    str,
    BeforeValidator(_rest(_whole, str)),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "examples": ["5%"]}]}),
]
"""A number of files, or a percentage of all that the file system can hold."""


def shown(seconds: float) -> str:
    """A duration for a sentence; also in seconds, as it may have been written."""
    text = duration_text(seconds)
    return text if text.endswith("s") else f"{text} = {seconds:.0f}s"


def one_of(**choices: Any) -> None:
    """Exactly one of these is set. Raises ValueError when none or several are."""
    given = [f"'{name}'" for name, value in choices.items() if value is not None]
    names = " or ".join(f"'{name}'" for name in choices)
    if len(given) != 1:
        problem = "none is given" if not given else f"{' and '.join(given)} are given"
        raise ValueError(f"one of {names} is needed, and only one; {problem}")
