"""The pods' gateway as an address of the machine's loopback link, while a node has networks for pods.

On a machine whose only other addresses are loopback, it is the one at which pods reach the API and the cluster DNS, before
any pod is there. Its label tells it from addresses by which others reach the machine.
"""

import array
import fcntl
import socket
import struct

from pykubelet.podnetwork.netlink import LOOPBACK_INDEX, Netlink

_LABEL = "lo:pods"
_GET_ADDRESSES = 0x8912
_ENTRY = struct.Struct("=16sHH4s16x")  # label, family, port, address
_REQUEST = struct.Struct("@iP")  # size and address of a buffer


def add_gateway(address: str) -> None:
    """Add an address to the loopback link, unless it is there; OSError if that fails."""
    netlink = Netlink()
    try:
        netlink.add_address(address, LOOPBACK_INDEX, label=_LABEL)
    except FileExistsError:
        # An earlier agent was killed, or another node has the same range.
        pass
    finally:
        netlink.close()


def remove_gateway(address: str) -> None:
    """Remove the address from the loopback link; OSError if it is not there."""
    netlink = Netlink()
    try:
        netlink.delete_address(address, LOOPBACK_INDEX)
    finally:
        netlink.close()


def remove_gateways() -> None:
    """Remove all of them, after a node that was killed; the links of another node's pods have its own too. OSError."""
    for address in gateways():
        remove_gateway(address)


def gateways() -> frozenset[str]:
    """The gateways of pods on the loopback link of this network namespace."""
    entries = _addresses()
    return frozenset(
        socket.inet_ntoa(address) for label, _, _, address in entries if label.rstrip(b"\0") == _LABEL.encode()
    )


def _addresses() -> list[tuple[bytes, int, int, bytes]]:
    """The labels and IPv4 addresses of all links that are up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        # Without a buffer the kernel says how much it needs; more may come meanwhile.
        size, _ = _REQUEST.unpack(fcntl.ioctl(asked, _GET_ADDRESSES, _REQUEST.pack(0, 0)))
        buffer = array.array("b", bytes(size + 16 * _ENTRY.size))
        place, room = buffer.buffer_info()
        size, _ = _REQUEST.unpack(fcntl.ioctl(asked, _GET_ADDRESSES, _REQUEST.pack(room, place)))
    return list(_ENTRY.iter_unpack(buffer.tobytes()[:size]))
