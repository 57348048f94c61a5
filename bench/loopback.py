"""The way to a server that was started a moment ago on this machine."""

import ssl
from pathlib import Path

import aiohttp

TOKEN = "bench-token"


def token_file(folder: Path) -> Path:
    """Who may do everything."""
    path = folder / "tokens.csv"
    path.write_text(f'{TOKEN},admin,1,"system:masters"\n')
    return path


def session(connections: int = 0) -> aiohttp.ClientSession:
    """An HTTP client that may do everything, over so many connections; 0: as many as it takes."""
    # A loopback server with a CA made a moment ago: there is nobody else to talk to.
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {TOKEN}"},
        connector=aiohttp.TCPConnector(ssl=tls, limit=connections),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**22,
    )
