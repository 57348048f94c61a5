"""Backs up the store while it is in use, on SIGUSR1.

A backup is written under another name and then replaces the previous one, so `backup.db` is always complete.
"""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.apiserver.storage.interfaces import StoreUnusable

log = get_logger(__name__)

BACKUP_FILE = "backup.db"


class BackupWriter:
    """Writes `backup.db` into a folder on each SIGUSR1; signals during a backup cause one more."""

    def __init__(self, store: DurableStore, folder: Path) -> None:
        self._store, self._path = store, folder / BACKUP_FILE

    async def run(self, ready: asyncio.Event) -> None:
        requested, loop = asyncio.Event(), asyncio.get_running_loop()
        # Only a loop in the main thread receives signals; elsewhere, call `DurableStore.backup`.
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(signal.SIGUSR1, requested.set)
        ready.set()
        while True:
            await requested.wait()
            requested.clear()
            await self._write()

    async def _write(self) -> None:
        unfinished = self._path.with_name(f"{BACKUP_FILE}.new")
        try:
            # Left over from an interrupted backup.
            await asyncio.to_thread(unfinished.unlink, missing_ok=True)
            await self._store.backup(unfinished)
            await asyncio.to_thread(unfinished.replace, self._path)
        except (OSError, StoreUnusable) as error:
            log.error("backup cannot be written", path=self._path, cause=str(error))
        else:
            log.info("backup written", path=self._path)
