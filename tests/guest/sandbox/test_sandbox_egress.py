"""A sandbox reaches nothing outside itself, and only what was opened reaches in."""

import select
import socket

from stormcell import Sandbox

REACH = (
    "import socket, sys\n"
    "end = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
    "end.sendall(b'out'); print('connected')\n"
)


def test_the_host_is_not_reached_from_inside(sbx):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as control:  # somebody listens
            assert select.select([listener], [], [], 10)[0]
            listener.accept()[0].close()
            assert control.recv(1) == b""
        # QEMU's user network answers for the host at 10.0.2.2
        result = sbx.exec(["python3", "-c", REACH, "10.0.2.2", str(port)], timeout=60)
        assert not result.ok and b"connected" not in result.stdout
        assert not select.select([listener], [], [], 1)[0]


def test_an_opened_port_is_reached_and_no_other(home, template):
    serve = "import socket; s = socket.create_server(('', {0})); c, _ = s.accept(); c.sendall(b'in'); c.close()"
    with Sandbox.create(template, open_ports={"web": 8000}) as sandbox:
        listens = "until grep -q ':1F40 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done"
        sandbox.exec(f'python3 -c "{serve.format(8000)}" >/dev/null 2>&1 & {listens}', timeout=60, check=True)
        assert list(sandbox.ports) == ["web"]
        with socket.create_connection(("127.0.0.1", sandbox.ports["web"]), 60) as end:
            assert end.recv(2) == b"in"
