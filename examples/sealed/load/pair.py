"""One of two that hear from each other: beats over UDP, and an echo over TCP that is tried anew when it stalls.

pair.py HERE PEER
"""

import os
import socket
import sys
import threading
import time

from diary import Diary, until_told

BEATS, ECHO = 7001, 7002
PATIENCE = 0.3


def beat(peer: str) -> None:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    number = 0
    while True:
        number += 1
        there.sendto(f"{number} {time.monotonic_ns()} {os.urandom(4).hex()}".encode(), (peer, BEATS))
        time.sleep(0.01 + os.urandom(1)[0] / 25_600)


def hear(diary: Diary) -> None:
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.settimeout(PATIENCE)
    here.bind(("", BEATS))
    while True:
        try:
            diary.note("beat", here.recv(100).decode())
        except TimeoutError:
            diary.note("no beat")


def serve(listening: socket.socket) -> None:
    def echo(stream: socket.socket) -> None:
        with stream:
            while data := stream.recv(65536):
                stream.sendall(data[::-1])

    while True:
        threading.Thread(target=echo, args=(listening.accept()[0],), daemon=True).start()


def call(diary: Diary, peer: str) -> None:
    while True:
        try:
            with socket.create_connection((peer, ECHO), PATIENCE) as stream:
                while True:
                    said = os.urandom(500)
                    stream.sendall(said)
                    heard = b""
                    while len(heard) < len(said):
                        heard += stream.recv(65536)
                    diary.note("echo", stream.getsockname()[1], heard == said[::-1], heard[:6].hex())
                    time.sleep(0.03)
        except OSError as error:
            diary.note("echo", type(error).__name__)
            time.sleep(0.05)


def main() -> None:
    here, peer = sys.argv[1:]
    diary = Diary("pair", here)
    listening = socket.create_server(("", ECHO))
    for work, given in ((beat, (peer,)), (hear, (diary,)), (serve, (listening,)), (call, (diary, peer))):
        threading.Thread(target=work, args=given, daemon=True).start()
    until_told("pair")


main()
