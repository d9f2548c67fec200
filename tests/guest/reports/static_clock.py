"""A static program without any library: a loop of system calls, as bytes. No compiler is needed to have one.

It prints {realtime, monotonic} by clock_gettime(2) and the answer of gettimeofday(2), three pairs of (s, ns or us) in
little-endian 64-bit numbers, every 100 ms, 3000 times.
"""

import struct

BASE, CODE, TIMES = 0x400000, 0x78, 3000
BUFFER, PAUSE = BASE + 0x200, BASE + 0x240


def number(value: int) -> bytes:
    return struct.pack("<I", value)


def call(which: int, *arguments: bytes) -> bytes:
    return b"\xb8" + number(which) + b"".join(arguments) + b"\x0f\x05"  # mov eax, which; ...; syscall


RDI, RSI, RDX = b"\xbf", b"\xbe", b"\xba"  # mov edi/esi/edx, number


def program() -> bytes:
    """The whole file."""
    loop = b"".join(
        (
            call(228, RDI + number(0), RSI + number(BUFFER)),  # clock_gettime(CLOCK_REALTIME)
            call(228, RDI + number(1), RSI + number(BUFFER + 16)),  # clock_gettime(CLOCK_MONOTONIC)
            call(96, RDI + number(BUFFER + 32), RSI + number(0)),  # gettimeofday
            call(1, RDI + number(1), RSI + number(BUFFER), RDX + number(48)),  # write
            call(35, RDI + number(PAUSE), RSI + number(0)),  # nanosleep
        )
    )
    loop += b"\xff\xcb"  # dec ebx
    loop += b"\x0f\x85" + struct.pack("<i", -(len(loop) + 6))  # jnz loop
    code = b"\xbb" + number(TIMES) + loop + call(60, RDI + number(0))  # mov ebx, TIMES; ...; exit(0)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, BASE + CODE, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, BASE, BASE, 0x250, 0x250, 0x1000)
    file = (header + segment + code).ljust(PAUSE - BASE, b"\0")
    return file + struct.pack("<QQ", 0, 100_000_000)


def told(raw: bytes) -> list[tuple[float, float, float]]:
    """(realtime, monotonic, gettimeofday) in seconds, a row a time."""
    rows = [struct.unpack_from("<6q", raw, at) for at in range(0, len(raw) - 47, 48)]
    return [(r[0] + r[1] / 1e9, r[2] + r[3] / 1e9, r[4] + r[5] / 1e6) for r in rows]
