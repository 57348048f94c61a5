"""The file with the link that the next browser can use; only its owner may read it."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.web.sessions import Sessions

log = get_logger(__name__)


class LinkFile:
    """Keeps the file in step with the key that is valid."""

    def __init__(self, path: Path, port: int, sessions: Sessions) -> None:
        self.path, self._port, self._sessions = path, port, sessions

    @property
    def url(self) -> str:
        """The link that is valid now."""
        return f"http://127.0.0.1:{self._port}/?key={self._sessions.key}"

    async def write(self) -> None:
        """Write down the link that is valid now; a folder that cannot be written to is no reason to refuse anybody."""
        try:
            await asyncio.to_thread(self._write, self.url)
        except OSError as error:
            log.warning("the link of the page is not written down", path=str(self.path), cause=error.strerror)

    def remove(self) -> None:
        """It leads nowhere any more."""
        with suppress(OSError):
            self.path.unlink()

    def _write(self, url: str) -> None:
        draft = self.path.with_name(f".{self.path.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{url}\n")
        draft.replace(self.path)
