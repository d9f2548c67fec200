import pytest

from stormcell.machine.model import Forward
from stormcell.machine.network import real_ports, refused_port

# `info usernet` of QEMU 7.2
USERNET = """\
Hub -1 (n0):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[ESTABLISHED]   55       127.0.0.1 45000       10.0.2.15  5432     0     0
  TCP[HOST_FORWARD]  53       127.0.0.1 39429       10.0.2.15  8080     0     0
  TCP[HOST_FORWARD]  52       127.0.0.1  2222       10.0.2.15    22     0     0
  TCP[HOST_FORWARD]  51       127.0.0.1 40001       10.0.2.15    22     0     0
"""


def test_ports_are_found_by_what_they_lead_to():
    assert real_ports(USERNET, [Forward("web", 8080)]) == {"web": 39429}


def test_two_forwards_to_one_guest_port_are_kept_apart():
    forwards = [Forward("any", 22), Forward("fixed", 22, 2222)]
    assert real_ports(USERNET, forwards) == {"fixed": 2222, "any": 40001}


def test_a_forward_that_is_not_there_is_an_error():
    with pytest.raises((KeyError, IndexError)):
        real_ports(USERNET, [Forward("db", 5432)])


def test_a_taken_port_is_named():
    error = refused_port(
        "qemu-system-x86_64: -netdev user: Could not set up host forwarding rule 'tcp:127.0.0.1:8080-:80'"
    )
    assert error is not None and "8080" in error.what and error.remedy
    assert refused_port("qemu-system-x86_64: something else") is None
