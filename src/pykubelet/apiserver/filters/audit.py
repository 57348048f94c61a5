"""The audit log: one line of JSON for each write, with its metadata and never the objects.

Requests without credentials cannot fill it: texts in a line are cut, and rejected anonymous requests get a few lines a
minute, followed by one with the number of those left out.

Upstream: staging/src/k8s.io/apiserver/pkg/audit/request.go,
staging/src/k8s.io/apiserver/plugin/pkg/audit/log/backend.go
"""

import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.serializer import encode
from pykubelet.api.times import format_micro_time
from pykubelet.apiserver.request import ANONYMOUS_NAME

log = get_logger(__name__)

# A line has about 300 bytes, so these files hold more than the last 200,000 writes.
MAX_BYTES = 16 * 1024 * 1024
KEPT_FILES = 4
# Kubernetes' names have at most 253 characters.
MAX_TEXT = 256
MAX_ANNOTATIONS = 64
# A dozen lines a minute: it takes anonymous requests more than a week to fill all files.
ANONYMOUS_BYTES = 4096
ANONYMOUS_SECONDS = 60.0
_REJECTED = 400


class AuditRecord(NamedTuple):
    id: str
    user: str
    acting_as: str
    """The impersonated user, if any."""
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    seconds: float
    source: str
    user_agent: str
    annotations: Mapping[str, str] = {}
    """What admission says about the request."""


class AuditLog:
    """A rotated file of records; the newest `KEPT_FILES` are kept. Only the event loop's thread writes it."""

    def __init__(self, path: Path, clock: Clock, *, max_bytes: int = MAX_BYTES) -> None:
        self._path, self._clock, self._max_bytes = path, clock, max_bytes
        self._failed = False
        self._anonymous_until, self._anonymous_left, self._dropped = 0.0, 0, 0
        self._file, self._size = _open(path)

    def write(self, record: AuditRecord) -> None:
        """Appends a line. A failing disk does not stop the server: the error is logged once."""
        facts = {name: _cut(value) for name, value in record._asdict().items() if value not in ("", {})}
        line = self._line({**facts, "seconds": round(record.seconds, 6)})
        now = self._clock.monotonic()
        if now >= self._anonymous_until:
            self._write_dropped()
        if record.user == ANONYMOUS_NAME and record.code >= _REJECTED:
            if now >= self._anonymous_until:
                self._anonymous_until, self._anonymous_left = now + ANONYMOUS_SECONDS, ANONYMOUS_BYTES
            self._anonymous_left -= len(line)
            if self._anonymous_left < 0:
                self._dropped += 1
                return
        self._append(line)

    def close(self) -> None:
        """Closes the file; later records are dropped."""
        self._write_dropped()
        os.close(self._file)

    def _line(self, facts: Mapping[str, object]) -> bytes:
        return encode({"at": format_micro_time(self._clock.now()), **facts}) + b"\n"

    def _write_dropped(self) -> None:
        """Writes how many rejected anonymous requests have no line of their own."""
        if self._dropped:
            self._append(self._line({"user": ANONYMOUS_NAME, "dropped": self._dropped}))
            self._dropped = 0

    def _append(self, line: bytes) -> None:
        try:
            if self._size + len(line) > self._max_bytes:
                self._rotate()
            self._size += os.write(self._file, line)
        except OSError as error:
            if not self._failed:
                log.error("audit log cannot be written", path=self._path, reason=error.strerror)
            self._failed = True
        else:
            self._failed = False

    def _rotate(self) -> None:
        for number in range(KEPT_FILES - 1, 0, -1):
            older = self._path if number == 1 else self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        os.close(self._file)
        self._file, self._size = _open(self._path)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _cut(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_cut(key): _cut(text) for key, text in islice(value.items(), MAX_ANNOTATIONS)}
    return f"{value[:MAX_TEXT]}..." if isinstance(value, str) and len(value) > MAX_TEXT else value


def _open(path: Path) -> tuple[int, int]:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return file, os.fstat(file).st_size
