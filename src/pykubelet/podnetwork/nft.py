"""Runs the program nft in the network namespace of this process."""

import shutil
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from pykubelet.aio.threads import in_thread

NFT_SECONDS = 60.0
"""How long nft may take: a table of 100,000 endpoints takes some seconds."""
NFT_MISSING = "nft is not installed (Debian package nftables)"


class NftResult(NamedTuple):
    """What nft wrote, and its exit code."""

    exit_code: int
    output: bytes
    errors: bytes


RunNft = Callable[[Sequence[str], str], Awaitable[NftResult]]
"""Runs nft with arguments and its input in some network namespace; OSError if it does not start, or does not end in time."""


def nft_program() -> str | None:
    """The path of the program nft, if it is installed; ordinary users' path of Debian lacks its folder."""
    return shutil.which("nft", path="/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin")


async def run_nft(arguments: Sequence[str], text: str = "") -> NftResult:
    """Run nft; a cancelled caller waits until it is done, so that nothing overlaps with it."""
    return await in_thread(_run, arguments, text)


def _run(arguments: Sequence[str], text: str) -> NftResult:
    program = nft_program()
    if program is None:
        raise FileNotFoundError(NFT_MISSING)
    try:
        done = subprocess.run(  # noqa: S603  a program of the system
            [program, *arguments],
            input=text.encode(),
            capture_output=True,
            env={},
            cwd="/",
            start_new_session=True,
            timeout=NFT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"nft took more than {NFT_SECONDS:.0f} seconds") from error
    return NftResult(done.returncode, done.stdout, done.stderr)
