"""The machine code of a sealed guest's stops: golden, and the same instructions whatever the order says."""

import struct

import pytest

from stormcell.guest.sealed import stop
from stormcell.guest.sealed.mailbox import GATE, GO_BY, ORDER, PASSING, STAND, STOP, TSC

GOLDEN = """
4989d0 8b4710 ba0f060000 b907060000 83f801 0f45d1 ee ba0f060000 8b4e40 83f801 0f45d1 ee 31c9 83f801 0f95c1
6bc903 314e40 0f31 894648 89564c 418b4010 ba0f060000 b905050000 83f803 0f44d1 b001 ee c3
"""
OUT, RET = b"\xee", b"\xc3"


def test_the_code_is_the_golden_one():
    assert bytes.fromhex(GOLDEN) == stop._PASS


class Processor:
    """Executes the few instructions that there are; another one is an error, a jump above all."""

    def __init__(self, order, status, always):
        self.memory = {"order": order, "status": status, "always": always}
        self.registers = {"rdi": always, "rsi": "status", "rdx": "order"}
        self.eax = self.ecx = self.edx = 0
        self.r8 = ""
        self.zero = False
        self.ports: list[int] = []
        self.executed: list[bytes] = []

    def run(self, code):
        at = 0
        while True:
            size = self.one(code, at)
            self.executed.append(code[at : at + size])
            at += size
            if self.executed[-1] == RET:
                assert at == len(code)
                return

    def one(self, code, at):
        head, byte = code[at : at + 2], code[at + 2] if at + 2 < len(code) else 0
        if code[at] in (0xB9, 0xBA):
            (value,) = struct.unpack_from("<I", code, at + 1)
            self.ecx, self.edx = (value, self.edx) if code[at] == 0xB9 else (self.ecx, value)
            return 5
        if code[at : at + 1] == OUT:
            self.ports.append(self.edx)
            return 1
        if code[at : at + 1] == RET:
            return 1
        if code[at] == 0xB0:
            return 2
        if head == b"\x0f\x31":
            self.eax, self.edx = 0x1111, 0x2222
            return 2
        if head == b"\x31\xc9":
            self.ecx = 0
            return 2
        if code[at : at + 3] == b"\x41\x8b\x40":
            self.eax = self.load(self.r8, code[at + 3])
            return 4
        done = {
            b"\x49\x89": lambda: setattr(self, "r8", self.registers["rdx"]),
            b"\x8b\x47": lambda: setattr(self, "eax", self.load(self.registers["rdi"], byte)),
            b"\x8b\x4e": lambda: setattr(self, "ecx", self.load("status", byte)),
            b"\x83\xf8": lambda: setattr(self, "zero", self.eax == byte),
            b"\x0f\x45": lambda: setattr(self, "edx", self.edx if self.zero else self.ecx),
            b"\x0f\x44": lambda: setattr(self, "edx", self.ecx if self.zero else self.edx),
            b"\x0f\x95": lambda: setattr(self, "ecx", int(not self.zero)),
            b"\x6b\xc9": lambda: setattr(self, "ecx", self.ecx * byte),
            b"\x31\x4e": lambda: self.store("status", byte, self.load("status", byte) ^ self.ecx),
            b"\x89\x46": lambda: self.store("status", byte, self.eax),
            b"\x89\x56": lambda: self.store("status", byte, self.edx),
        }
        assert head in done, f"unknown instruction at {at}: {code[at : at + 4].hex()}"
        done[head]()
        return 3

    def load(self, page, place):
        return struct.unpack_from("<I", self.memory[page], place)[0]

    def store(self, page, place, value):
        struct.pack_into("<I", self.memory[page], place, value)


def performed(passing, *, always=False):
    order, status, stand = bytearray(64), bytearray(128), bytearray(64)
    struct.pack_into("<I", order, PASSING - ORDER, passing)
    struct.pack_into("<I", stand, PASSING - ORDER, STAND)
    struct.pack_into("<I", status, GATE, stop.GATES[0])
    processor = Processor(order, status, stand)
    processor.registers["rdi"] = "always" if always else "order"
    processor.run(stop._PASS)
    (gate,) = struct.unpack_from("<I", status, GATE)
    assert struct.unpack_from("<II", status, TSC) == (0x1111, 0x2222)
    return processor, gate


@pytest.mark.parametrize(
    ("passing", "always", "ports", "gate"),
    [
        (GO_BY, False, (stop.NOWHERE, stop.NOWHERE, stop.NOWHERE), stop.GATES[0]),
        (STAND, False, (stop.BELL, stop.GATES[0], stop.NOWHERE), stop.GATES[1]),
        (GO_BY, True, (stop.BELL, stop.GATES[0], stop.NOWHERE), stop.GATES[1]),
        (STOP, True, (stop.BELL, stop.GATES[0], stop.PANIC), stop.GATES[1]),
        (STOP, False, (stop.BELL, stop.GATES[0], stop.PANIC), stop.GATES[1]),
    ],
)
def test_it_goes_by_or_stands_at_the_gate_whose_turn_it_is(passing, always, ports, gate):
    processor, after = performed(passing, always=always)
    assert (tuple(processor.ports), after) == (ports, gate)


def test_whatever_the_order_says_the_same_instructions_are_executed():
    ways = [
        performed(passing, always=always)[0].executed for passing in (GO_BY, STAND, STOP) for always in (True, False)
    ]
    assert all(way == ways[0] for way in ways)
    assert b"".join(ways[0]) == stop._PASS
