"""Connects the network that a holder keeps to other machines, with the program pasta.

pasta opens sockets of the machine for what comes to a tun device in the holder's network, as a program of this user. It
outlives the agent and ends with the holder. From outside it passes nothing in; pods reach the machine at its address, not its
loopback.
"""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from pathlib import Path

from pykubelet.podnetwork.holder_client import HolderClient

_DEVICE = Path("/dev/net/tun")
_PID_FILE = "egress.pid"
_SECONDS = 10.0
# Addresses of the link to pasta; link-local ones, which cannot be those of other machines.
_ADDRESS, _GATEWAY, _MASK = "169.254.2.1", "169.254.2.2", "30"
_NO_PORTS = ("-t", "none", "-u", "none", "-T", "none", "-U", "none")


async def ensure_egress(holder: HolderClient) -> str:
    """Have pods reach other machines; returns why they do not, empty if they do."""
    if holder.has_egress:
        return ""
    program = shutil.which("pasta")
    if program is None:
        return "the program pasta is missing: install the package passt"
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return f"this user may not open {_DEVICE}"
    pid_file = Path(holder.holder) / _PID_FILE
    await asyncio.to_thread(_end_earlier, pid_file)
    problem = await _start(program, holder.pid, pid_file)
    if not problem:
        try:
            await holder.keep_egress(int(await asyncio.to_thread(pid_file.read_text)))
        except (OSError, ValueError) as error:
            problem = f"pasta has ended: {error}"
    return problem


async def _start(program: str, holder: int, pid_file: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        program,
        *("--config-net", "--ipv4-only", "--quiet", "--no-map-gw", *_NO_PORTS),
        *("--userns", f"/proc/{holder}/ns/user", "--netns", f"/proc/{holder}/ns/net", "--ns-ifname", "outside"),
        *("--address", _ADDRESS, "--netmask", _MASK, "--gateway", _GATEWAY, "--pid", str(pid_file)),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env={},
        cwd="/",
        start_new_session=True,
    )
    said = b""
    try:
        async with asyncio.timeout(_SECONDS):
            # It goes on in the background once it works.
            _, said = await process.communicate()
    except TimeoutError:
        return f"pasta did not start within {_SECONDS:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return ""
    return f"pasta: {' '.join(said.decode(errors='replace').split())[-200:]}"


def _end_earlier(pid_file: Path) -> None:
    """End the pasta of a holder that was killed."""
    with suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        if bytes(pid_file) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            os.kill(pid, signal.SIGKILL)
    pid_file.unlink(missing_ok=True)
