"""Why a connection was not opened, in the words of Go.

Users of Kubernetes know them from events and statuses. Upstream: package net of Go.
"""

import os
import socket


def host_port(host: str, port: int) -> str:
    """Host and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial_failure(host: str, port: int, error: OSError) -> str:
    """Why no connection was opened."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    return f"dial tcp {host_port(host, port)}: connect: {errno_text(error)}"


def errno_text(error: OSError) -> str:
    """The system's word for an error: in small letters."""
    text = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
