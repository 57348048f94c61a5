"""Access to a server that was just started on this machine."""

import ssl
from pathlib import Path

import aiohttp

TOKEN = "bench-token"


def token_file(folder: Path) -> Path:
    """Write a token file whose only user is a cluster admin."""
    path = folder / "tokens.csv"
    path.write_text(f'{TOKEN},admin,1,"system:masters"\n')
    return path


def session(connections: int = 0) -> aiohttp.ClientSession:
    """An HTTP client with admin rights; `connections` limits the connections, 0 means no limit."""
    # The server is on loopback with a CA of its own, so the certificate need not be verified.
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {TOKEN}"},
        connector=aiohttp.TCPConnector(ssl=tls, limit=connections),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**22,
    )
