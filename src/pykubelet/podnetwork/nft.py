"""Runs the program nft in the network namespace of this process."""

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

# Debian's path of ordinary users lacks these.
_SYSTEM_PATH = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin"))
NFT_SECONDS = 60.0
"""How long nft may take: a table of 100,000 endpoints takes some seconds."""


class NftResult(NamedTuple):
    """What nft wrote, and its exit code."""

    exit_code: int
    output: bytes
    errors: bytes


RunNft = Callable[[Sequence[str], str], Awaitable[NftResult]]
"""Runs nft with arguments and its input in some network namespace."""


def nft_program() -> str | None:
    """The path of nft; None if it is not installed."""
    return shutil.which("nft", path=_SYSTEM_PATH)


async def run_nft(arguments: Sequence[str], text: str = "") -> NftResult:
    """Run nft with `text` as its input. OSError if it does not start, TimeoutError if it does not end."""
    program = nft_program()
    if program is None:
        raise FileNotFoundError("the program nft is missing: install the package nftables")
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}, cwd="/", start_new_session=True
    )
    try:
        async with asyncio.timeout(NFT_SECONDS):
            output, errors = await process.communicate(text.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return NftResult(process.returncode or 0, output, errors)
