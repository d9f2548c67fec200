"""The network tools of the guest, as far as they run anywhere: nothing here changes a network."""

import base64
import errno
import io
import json
import socket
import struct
import subprocess
import threading

import pytest

from stormcell.guest.tools import common
from stormcell.guest.tools.net import cut, down, hosts, link, netlink, nft, reach
from stormcell.guest.tools.net import state as netstate
from stormcell.guest.tools.net.netlink import Message, Netlink, attribute, attributes, nested


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(common, "MARKS", str(tmp_path / "marks"))


def run(tool, capsys, *words: str):
    """(exit code, decoded stdout or None, stderr)."""
    code = tool.main(list(words))
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


def test_attributes_are_read_back_whatever_their_length():
    packed = attribute(3, "lo") + attribute(5, 7) + nested(18, attribute(1, b"abc"))
    assert len(packed) % 4 == 0
    found = attributes(packed)
    assert found == {3: b"lo\0", 5: struct.pack("=I", 7), 18: attribute(1, b"abc")}
    assert attributes(found[18]) == {1: b"abc"}
    assert attributes(b"\x01\x00\x00\x00rest") == {}
    assert attributes(b"") == {}


def test_the_kernel_answers_with_its_links_and_its_reasons():
    body = struct.pack("=BxHiII", 0, 0, 0, 0, 0)
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        links = kernel.dump(18, body)
        assert any(attributes(one.body[16:]).get(3) == b"lo\0" for one in links)
        with pytest.raises(OSError, match=r"Operation not permitted|No such device|Operation not supported"):
            kernel.ask(17, body + attribute(3, "no-such-link-1"))


def test_a_link_is_listed_with_its_counters(capsys):
    code, shown, _ = run(link, capsys, "list")
    assert code == 0
    assert shown["lo"].keys() == {"up", "rx_packets", "rx_dropped", "tx_packets", "tx_dropped"}
    assert link.look("no-such-link") == {}


def test_nothing_is_made_for_a_device_that_is_not_there(capsys):
    code, _, said = run(link, capsys, "make", "lo,eth77", "ifb", "sc1-out0")
    assert code == 1
    assert "there is no network device 'eth77'; there are " in said


def test_what_is_gone_is_released_already():
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        assert link._waiting(kernel, ("no-such-link",)) == {}


def test_a_device_that_is_not_up_is_not_taken_down(capsys):
    code, _, said = run(down, capsys, "down", "m", "no-such-link")
    assert code == 1
    assert "no-such-link is not there" in said
    assert common.get_mark("m") is None


def test_up_without_a_mark_does_nothing(capsys):
    assert run(down, capsys, "up", "m")[:2] == (0, {"put back": {}})


def test_a_link_is_shown_with_what_it_has(capsys):
    code, shown, _ = run(down, capsys, "show", "m", "lo", "no-such-link")
    assert code == 0
    assert "address 127.0.0.1/8" in shown["devices"]["lo"]["has"]
    assert shown["devices"]["no-such-link"] == {}
    assert shown["no_routes"] >= 0
    assert shown["ours"] == []


def test_what_a_link_had_is_kept_as_the_message_that_makes_it():
    head = struct.pack("=BBBBi", socket.AF_INET6, 64, 0x40 | 0x80, 0, 7)
    body = head + attribute(1, socket.inet_pton(socket.AF_INET6, "fd00::1")) + attribute(6, bytes(16))
    entry = netstate._entry(Message(20, body), 7)
    assert entry is not None
    assert entry.name == "address fd00::1/64"
    flags = struct.unpack("=I", attributes(entry.body[8:])[8])[0]
    assert flags & 0x02, "no duplicate address detection"
    assert not flags & 0x40, "not tentative"
    assert 6 not in attributes(entry.body[8:]), "no cache information"
    assert netstate.loaded(netstate.dumped(entry)) == entry
    assert base64.b64decode(str(netstate.dumped(entry)[2])) == entry.body
    assert netstate._entry(Message(20, body), 8) is None


@pytest.mark.parametrize(
    ("table", "kind", "oif", "kept"), [(254, 1, 7, True), (255, 1, 7, False), (254, 2, 7, False), (254, 1, 8, False)]
)
def test_a_route_is_kept_when_it_is_ours_to_put_back(table, kind, oif, kept):
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, 24, 0, 0, table, 3, 0, kind, 0x10)
    body = head + attribute(4, oif) + attribute(1, socket.inet_aton("192.0.2.0")) + attribute(15, table)
    entry = netstate._entry(Message(24, body + attribute(5, socket.inet_aton("10.0.2.2"))), 7)
    assert (entry is not None) is kept
    if entry is not None:
        assert entry.name == "route 192.0.2.0/24 via 10.0.2.2 table 254"
        assert entry.body[:12][8:] == bytes(4), "a dead next hop comes back alive"


def test_only_permanent_neighbours_are_kept():
    for state, kept in ((0x80, True), (0x02, False)):
        body = struct.pack("=BxxxiHBB", socket.AF_INET, 7, state, 0, 1) + attribute(1, socket.inet_aton("10.0.2.77"))
        entry = netstate._entry(Message(28, body), 7)
        assert (entry.name if entry else None) == ("neighbour 10.0.2.77" if kept else None)


def test_connections_are_chosen_by_port_and_peer():
    one = cut.Connection(socket.AF_INET, 1, "10.0.0.1", 4000, "10.0.0.2", 5432, b"")
    networks = cut._networks("10.0.0.0/24")
    assert cut._chosen(one, 0, 0, [])
    assert cut._chosen(one, 5432, 4000, networks)
    assert not cut._chosen(one, 5433, 0, [])
    assert not cut._chosen(one, 0, 5432, [])
    assert not cut._chosen(one, 0, 0, cut._networks("10.0.1.0/24"))
    assert not cut._chosen(one, 0, 0, cut._networks("fd00::/8"))
    assert one.text == "10.0.0.1:4000 > 10.0.0.2:5432 ESTAB"
    assert cut._address(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, "::ffff:10.0.0.2")) == "10.0.0.2"
    assert cut._end("fd00::1", 80) == "[fd00::1]:80"


def test_a_name_without_an_address_cuts_nothing(capsys):
    code, _, said = run(cut, capsys, "cut", "m", "0", "0", "no-such-name.invalid")
    assert code == 1
    assert "'no-such-name.invalid' has no address" in said
    assert run(cut, capsys, "show", "m")[1] == {"cut": None}
    assert run(cut, capsys, "forget", "m")[0] == 0


def test_a_name_without_an_address_is_not_watched(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.read", lambda: "", raising=False)
    with pytest.raises(LookupError, match="has no address"):
        hosts.watch("f-hosts", "netdev", "t", "no-such-name.invalid")
    assert hosts.show("f-hosts") == {"names": {}, "watcher": False, "left": False}


def test_addresses_go_into_the_set_of_their_family():
    text = hosts._elements("netdev", "t", {"10.0.0.2", "fd00::1", "10.0.0.1"})
    assert text == "add element netdev t host_ip { 10.0.0.1, 10.0.0.2 }\nadd element netdev t host_ip6 { fd00::1 }\n"
    assert hosts._elements("netdev", "t", set()) == ""
    assert "127.0.0.1" in hosts._look_up("localhost")


def test_who_answers_who_refuses_and_who_is_silent(capsys):
    with socket.create_server(("127.0.0.1", 0)) as open_one, socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))  # bound, not listening
        ports = [s.getsockname()[1] for s in (open_one, closed, silent)]
        targets = [f"tcp/127.0.0.1/{ports[0]}", f"tcp/127.0.0.1/{ports[1]}", f"udp/127.0.0.1/{ports[2]}"]
        code, said, _ = run(reach, capsys, "2", *targets, "tcp/no-such-name.invalid/1")
        closed.close()
    assert code == 0
    assert said[targets[0]].startswith("answered in ")
    assert said[targets[1]] == "refused"
    assert said[targets[2]] == "no answer"


def test_a_datagram_that_is_answered_or_refused():
    with socket.socket(type=socket.SOCK_DGRAM) as echo:
        echo.bind(("127.0.0.1", 0))
        port = echo.getsockname()[1]
        answer = threading.Thread(target=lambda: echo.sendto(b"", echo.recvfrom(10)[1]), daemon=True)
        answer.start()
        assert reach.try_all(30, [f"udp/127.0.0.1/{port}"])[f"udp/127.0.0.1/{port}"].startswith("answered in ")
        answer.join(5)
    assert reach.try_all(5, [f"udp/127.0.0.1/{port}"]) == {f"udp/127.0.0.1/{port}": "refused"}
    assert reach.REFUSED[errno.ECONNRESET] == "refused"


@pytest.mark.parametrize("words", [[], ["soon"], ["1", "tcp/127.0.0.1"]])
def test_reach_says_how_it_is_called(words, capsys):
    code, _, said = run(reach, capsys, *words)
    assert code == 2
    assert "usage: stormcell-guest reach" in said


def test_messages_are_aligned():
    assert netlink._aligned(5) == 8
    assert netlink._aligned(8) == 8


def test_nftables_without_its_library_is_the_program(capsys, monkeypatch):
    asked = []

    def started(argv, **rest):
        asked.append((argv, rest["input"]))
        return subprocess.CompletedProcess(argv, 1 if "bad" in rest["input"] else 0, "told\n", "line 1: bad\n")

    monkeypatch.setattr(nft, "_LIBRARY", None)
    monkeypatch.setattr(subprocess, "run", started)
    assert nft.main(["list"]) == 0
    assert capsys.readouterr().out == "told\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("bad"))
    assert nft.main(["run"]) == 1
    assert "nft run: line 1: bad" in capsys.readouterr().err
    assert asked == [(["nft", "-j", "-f", "-"], "list ruleset"), (["nft", "-f", "-"], "bad")]
    assert nft.main(["flush"]) == 2
