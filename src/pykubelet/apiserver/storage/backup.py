"""Copies the store while it is in use, when the program is told to by SIGUSR1.

The copy is complete whenever it is there: it is made under another name and takes the place of the one before.
"""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.apiserver.storage.interfaces import StoreUnusable

log = get_logger(__name__)

BACKUP_FILE = "backup.db"


class BackupSource(Protocol):
    """What can be copied: a store."""

    async def backup(self, path: Path) -> None:
        """Write all of it, as it is now, to a file that must not exist; StoreUnusable if that fails."""


class BackupWriter:
    """Writes `backup.db` into a folder at each SIGUSR1; several while one is written become one."""

    def __init__(self, store: BackupSource, folder: Path) -> None:
        self._store, self._path = store, folder / BACKUP_FILE

    async def run(self, ready: asyncio.Event) -> None:
        """Wait for signals until cancelled."""
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        # A loop outside the main thread hears no signals; whoever runs one there can copy the store directly.
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(signal.SIGUSR1, asked.set)
        ready.set()
        while True:
            await asked.wait()
            asked.clear()
            await self._write()

    async def _write(self) -> None:
        unfinished = self._path.with_name(f"{BACKUP_FILE}.new")
        try:
            # What an end in the middle of the last one left.
            await asyncio.to_thread(unfinished.unlink, missing_ok=True)
            await self._store.backup(unfinished)
            await asyncio.to_thread(unfinished.replace, self._path)
        except (OSError, StoreUnusable) as error:
            log.error("backup cannot be written", path=self._path, cause=str(error))
        else:
            log.info("backup written", path=self._path)
