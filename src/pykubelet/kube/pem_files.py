"""PEM texts that may live in files, read again when a file changes.

In: where each text is. Out: the texts, the very same tuple until one of them changed. Files are replaced under a running
program (a node renews its client certificate), so they are looked at again by modification time.

Upstream: client-go/transport/cert_rotation.go.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.kube.credential_error import CredentialError

log = get_logger(__name__)

RECHECK_SECONDS = 10.0
"""Certificates are renewed hours before they expire: looking rarely is soon enough."""


@dataclass(frozen=True, slots=True)
class Pem:
    """One text: given inline, or the path of its file. `setting` says where that was configured."""

    setting: str
    path: str = ""
    data: bytes = field(default=b"", repr=False)


_Stamp = tuple[tuple[int, int, int], ...]


class PemFiles:
    """A few texts that belong together, such as a certificate and its key."""

    def __init__(self, *pems: Pem, clock: Clock) -> None:
        self._pems, self._clock = pems, clock
        self._texts: tuple[bytes, ...] | None = None
        self._stamp: _Stamp = ()
        self._checked_at = float("-inf")

    async def read(self) -> tuple[bytes, ...]:
        """The texts as of a few seconds ago; CredentialError if a file cannot be read and never could be."""
        now = self._clock.monotonic()
        if self._texts is not None and now - self._checked_at < RECHECK_SECONDS:
            return self._texts
        self._checked_at = now
        try:
            stamp, texts = await asyncio.to_thread(self._read_if_changed)
        except CredentialError as error:
            if self._texts is None:
                raise
            log.warning("a certificate file cannot be read again; the last one stays in use", error=error)
            return self._texts
        if texts is not None:
            self._stamp, self._texts = stamp, texts
        assert self._texts is not None
        return self._texts

    def look_again(self) -> None:
        """Make the next `read` look at the files, however recently it was done."""
        self._checked_at = float("-inf")

    def _read_if_changed(self) -> tuple[_Stamp, tuple[bytes, ...] | None]:
        # Stamps are taken before reading: a file replaced in between differs again at the next look.
        stamp = tuple(_stamp(pem) for pem in self._pems)
        if self._texts is not None and stamp == self._stamp:
            return stamp, None
        texts = tuple(pem_text(pem) for pem in self._pems)
        return stamp, (self._texts if texts == self._texts else texts)


def _stamp(pem: Pem) -> tuple[int, int, int]:
    if not pem.path:
        return (0, 0, 0)
    try:
        found = Path(pem.path).stat()
    except OSError as error:
        raise CredentialError(f"{pem.setting}: cannot read {pem.path}: {error.strerror}") from error
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def pem_text(pem: Pem) -> bytes:
    """The text; CredentialError if its file cannot be read."""
    if not pem.path:
        return pem.data
    try:
        return Path(pem.path).read_bytes()
    except OSError as error:
        raise CredentialError(f"{pem.setting}: cannot read {pem.path}: {error.strerror}") from error
