"""UDP and TCP over loopback: random datagrams in a numbered row, and a stream of random bytes.

What arrives, in which order and when, is written down; of the stream also how often the kernel sent again.
"""

import hashlib
import os
import socket
import struct
import threading
import time

from diary import Diary, until_told

UDP, TCP = ("127.0.0.1", 7001), ("127.0.0.1", 7002)
RETRANSMITS = 100  # offset of tcpi_total_retrans in struct tcp_info


def receive_datagrams(diary: Diary, here: socket.socket) -> None:
    expected = 0
    while True:
        data = here.recv(2048)
        number = struct.unpack_from("!I", data)[0]
        place = "late" if number < expected else f"after {number - expected} lost"
        diary.note("datagram", number, place, data[4:12].hex())
        expected = max(expected, number + 1)


def send_datagrams() -> None:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    number = 0
    while True:
        there.sendto(struct.pack("!I", number) + os.urandom(8 + os.urandom(1)[0] * 4), UDP)
        number += 1
        time.sleep(0.004)


def receive_stream(diary: Diary, listening: socket.socket) -> None:
    stream, total = listening.accept()[0], 0
    digest = hashlib.sha256()
    while data := stream.recv(65536):
        digest.update(data)
        total += len(data)
        diary.note("stream", total, digest.hexdigest()[:16])


def send_stream(diary: Diary) -> None:
    stream = socket.create_connection(TCP)
    while True:
        stream.sendall(os.urandom(4096))
        info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        diary.note("sent again", struct.unpack_from("I", info, RETRANSMITS)[0])
        time.sleep(0.02)


def main() -> None:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(UDP)
    listening = socket.create_server(TCP)
    if os.fork() == 0:
        threading.Thread(target=send_datagrams, daemon=True).start()
        send_stream(Diary("datagrams", "sender"))
    diary = Diary("datagrams")
    threading.Thread(target=receive_datagrams, args=(diary, datagrams), daemon=True).start()
    threading.Thread(target=receive_stream, args=(diary, listening), daemon=True).start()
    until_told("datagrams")


main()
