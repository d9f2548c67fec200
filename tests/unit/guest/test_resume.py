from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from stormcell.guest import resume


@pytest.mark.parametrize(
    ("peer", "here"),
    [
        ("0100007F", True),  # 127.0.0.1
        ("FF01107F", True),  # 127.16.1.255
        ("0202000A", False),  # 10.0.2.2
        ("7F00000A", False),  # 10.0.0.127
    ],
)
def test_an_ipv4_peer_as_the_kernel_prints_it(peer: str, here: bool) -> None:
    assert resume._loopback(peer) is here


@pytest.mark.parametrize(
    ("peer", "here"),
    [
        ("00000000000000000000000001000000", True),  # ::1
        ("0000000000000000FFFF00000100007F", True),  # ::ffff:127.0.0.1
        ("0000000000000000FFFF00000202000A", False),  # ::ffff:10.0.2.2
        ("0000C0FE000000000000000002000000", False),  # fec0::2
    ],
)
def test_an_ipv6_peer_as_the_kernel_prints_it(peer: str, here: bool) -> None:
    assert resume._loopback6(peer) is here


def test_a_connection_to_oneself_is_seen_and_is_not_foreign() -> None:
    before = resume.foreign_connections()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        counters = os.open(resume.COUNTERS, os.O_RDONLY)
        try:
            assert resume.established(counters)
        finally:
            os.close(counters)
        assert resume.foreign_connections() == before


def test_a_line_is_replaced_whole_whatever_its_length(tmp_path: Path) -> None:
    line = resume._Line(str(tmp_path / "line"), 0o600, width=4)
    assert (tmp_path / "line").read_text() == "    \n"
    for text in ("abcd", "a", "longer than it was"):
        line.write(text)
        assert (tmp_path / "line").read_text() == f"{text}\n"
    resume._Line(str(tmp_path / "line"), 0o600, width=4)
    assert (tmp_path / "line").read_text() == "longer than it was\n"
