"""Bring the guest's interfaces up with ioctls: at boot, each program that is not started is 20-60 ms saved.

Addresses are those of QEMU's user network; nothing is asked of it (no DHCP, no router advertisements).
"""

from __future__ import annotations

import fcntl
import socket
import struct

from stormcell.guest.kernel import write_file

ADDRESS, NETMASK, GATEWAY = "10.0.2.15", "255.255.255.0", "10.0.2.2"
ADDRESS6, PREFIX6, GATEWAY6 = "fec0::15", 64, "fec0::2"

# linux/sockios.h
_SIOCADDRT, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x890B, 0x8914, 0x8916, 0x891C
_IFF_UP, _RTF_UP, _RTF_GATEWAY = 1, 1, 2


def loopback_up() -> None:
    """127.0.0.1 and ::1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _up(control, "lo")


def configure(device: str) -> None:
    """The addresses and default routes. Raises OSError, when there is no such device above all."""
    for name, value in (("accept_ra", "0"), ("accept_dad", "0")):
        write_file(f"/proc/sys/net/ipv6/conf/{device}/{name}", value)
    address(device, ADDRESS, NETMASK)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        # struct rtentry: pad, destination, gateway, genmask, flags, then fields that stay zero
        route = struct.pack(
            "8x16s16s16sH", _address("0.0.0.0"), _address(GATEWAY), _address("0.0.0.0"), _RTF_UP | _RTF_GATEWAY
        )
        fcntl.ioctl(control, _SIOCADDRT, route.ljust(120, b"\0"))
    index = socket.if_nametoindex(device)
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
        # struct in6_ifreq
        fcntl.ioctl(control, _SIOCSIFADDR, struct.pack("16sIi", _address6(ADDRESS6), PREFIX6, index))
        # struct in6_rtmsg: destination, source, gateway, type, lengths, metric, info, flags, index
        route = struct.pack(
            "16s16s16sIHHILIi",
            bytes(16),
            bytes(16),
            _address6(GATEWAY6),
            0,
            0,
            0,
            1024,
            0,
            _RTF_UP | _RTF_GATEWAY,
            index,
        )
        fcntl.ioctl(control, _SIOCADDRT, route)


def address(device: str, address: str, netmask: str) -> None:
    """An IPv4 address for it; it is up then. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFADDR, _request(device) + _address(address))
        fcntl.ioctl(control, _SIOCSIFNETMASK, _request(device) + _address(netmask))
        _up(control, device)


def _up(control: socket.socket, device: str) -> None:
    fcntl.ioctl(control, _SIOCSIFFLAGS, _request(device) + struct.pack("H14x", _IFF_UP))


def _request(device: str) -> bytes:
    return device.encode().ljust(16, b"\0")


def _address(text: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))


def _address6(text: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6, text)
