"""Runs a cluster on a machine with one neighbour, and reports what the listener for pods answers to each.

`unshare --net python neighbours.py FOLDER`: the networks are this process's own and end with it.
"""

import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

from pykubelet_process import UpProcess

OWN, NEIGHBOUR = "10.77.0.1", "10.77.0.2"


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def connect_networks(other: int) -> None:
    """Join the networks of this process and of another one by a cable, which is the default route of both."""
    there = ("nsenter", "--target", str(other), "--net")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(other))
    for prefix, device, address, gateway in (((), "here", OWN, NEIGHBOUR), (there, "there", NEIGHBOUR, OWN)):
        run(*prefix, "ip", "address", "add", f"{address}/24", "dev", device)
        run(*prefix, "ip", "link", "set", device, "up")
        run(*prefix, "ip", "route", "add", "default", "via", gateway)


def answer(port: int) -> str:
    """The version that the API answers, or `closed` if it closes the connection before anything was sent."""
    with socket.create_connection((OWN, port), timeout=20) as plain:
        plain.settimeout(2)
        try:
            return plain.recv(1).decode() or "closed"
        except ConnectionError:
            return "closed"
        except TimeoutError:
            plain.settimeout(20)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as opened:
            opened.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return opened.recv(12).decode()


def main(folder: Path) -> None:
    """Reports both answers as JSON."""
    other = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    up = UpProcess(folder, runtime="sim")
    try:
        assert other.stdout is not None
        other.stdout.readline()
        connect_networks(other.pid)
        up.start()
        asked = [sys.executable, __file__, "--answer", str(up.port)]
        neighbour = subprocess.run(
            ["nsenter", "--target", str(other.pid), "--net", *asked], capture_output=True, text=True, check=True
        )
        json.dump({"own": answer(up.port), "neighbour": neighbour.stdout.strip()}, sys.stdout)
        assert up.has_said("listener is not for this client")
    finally:
        if up.is_running:
            up.stop()
        other.kill()
        other.wait()


if __name__ == "__main__":
    if sys.argv[1] == "--answer":
        sys.stdout.write(answer(int(sys.argv[2])))
    else:
        main(Path(sys.argv[1]))
