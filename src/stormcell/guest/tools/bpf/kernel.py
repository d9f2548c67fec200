"""bpf(2) without a library: objects by their pins, maps, links."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

_NUMBERS = {"x86_64": 321, "aarch64": 280}
_LOOKUP, _UPDATE, _DELETE, _NEXT_KEY = 1, 2, 3, 4
_PIN, _GET, _INFO, _ATTACH = 6, 7, 15, 17
_ATTR = 128
_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command: int, attr: bytes) -> int:
    buffer = ctypes.create_string_buffer(attr.ljust(_ATTR, b"\0"), _ATTR)
    done = int(_libc.syscall(_NUMBERS[os.uname().machine], command, buffer, _ATTR))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf({command}): {os.strerror(number)}")
    return done


def _address(buffer: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(buffer)


def pin(fd: int, path: str) -> None:
    """A name in the BPF file system keeps an object alive."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    _bpf(_PIN, struct.pack("QI", _address(name), fd))


def get(path: str) -> int:
    """A descriptor of a pinned object. Raises FileNotFoundError."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    try:
        return _bpf(_GET, struct.pack("QI", _address(name), 0))
    except FileNotFoundError:
        raise FileNotFoundError(2, "no such object", path) from None


def attach(program: int) -> int:
    """A link of a program to what it was loaded for (LSM hook or tracepoint with BTF)."""
    return _bpf(_ATTACH, struct.pack("QI", 0, program))


def link_id(fd: int) -> int:
    """The kernel's number of a link. 0 when it is none."""
    info = ctypes.create_string_buffer(256)
    _bpf(_INFO, struct.pack("IIQ", fd, 256, _address(info)))
    kind, number = struct.unpack_from("II", info.raw)
    return int(number) if kind else 0


class Map:
    """A pinned map, by descriptor; closed by `with`."""

    def __init__(self, path: str, key: int, value: int) -> None:
        self._fd = get(path)
        self._key = key
        self._value = value

    def __enter__(self) -> Map:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _call(self, command: int, key: bytes, value: ctypes.Array[ctypes.c_char] | None, flags: int = 0) -> None:
        given = ctypes.create_string_buffer(key, self._key)
        place = _address(value) if value is not None else 0
        _bpf(command, struct.pack("IIQQQ", self._fd, 0, _address(given), place, flags))

    def put(self, key: bytes, value: bytes) -> None:
        """Set."""
        self._call(_UPDATE, key, ctypes.create_string_buffer(value, self._value))

    def take(self, key: bytes) -> bytes | None:
        """The value, None when there is none."""
        value = ctypes.create_string_buffer(self._value)
        try:
            self._call(_LOOKUP, key, value)
        except FileNotFoundError:
            return None
        return value.raw

    def keys(self) -> Iterator[bytes]:
        """All keys. One that is removed meanwhile can make it begin again, so the number is bounded."""
        following = ctypes.create_string_buffer(self._key)
        key: bytes | None = None
        for _ in range(1 << 16):
            try:
                if key is None:
                    _bpf(_NEXT_KEY, struct.pack("IIQQQ", self._fd, 0, 0, _address(following), 0))
                else:
                    self._call(_NEXT_KEY, key, following)
            except FileNotFoundError:
                return
            key = following.raw
            yield key

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All that is there."""
        for key in self.keys():
            value = self.take(key)
            if value is not None:
                yield key, value
