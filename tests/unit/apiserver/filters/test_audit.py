"""The audit log: one line for each write, in a few files of limited size."""

import json
import stat
from pathlib import Path

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.apiserver.filters.audit import KEPT_FILES, AuditLog, AuditRecord

RECORD = AuditRecord(
    id="a-1",
    user="admin",
    acting_as="",
    verb="create",
    resource="pods",
    namespace="default",
    name="web",
    code=201,
    seconds=0.00123456789,
    source="127.0.0.1",
    user_agent="kubectl",
)


def test_audit_log_writes_a_line_at_once_that_only_its_owner_may_read(tmp_path: Path) -> None:
    """Empty fields are left out."""
    path = tmp_path / "audit.log"
    log = AuditLog(path, SystemClock())
    log.write(RECORD)
    line = json.loads(path.read_text())
    assert line.pop("at").endswith("Z")
    assert line == {
        "id": "a-1",
        "user": "admin",
        "verb": "create",
        "resource": "pods",
        "namespace": "default",
        "name": "web",
        "code": 201,
        "seconds": 0.001235,
        "source": "127.0.0.1",
        "user_agent": "kubectl",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log.close()


def test_audit_log_starts_a_new_file_when_one_is_full_and_keeps_a_few(tmp_path: Path) -> None:
    """Old lines are deleted and the newest stay, also across restarts."""
    path = tmp_path / "audit.log"
    for number in range(40):
        log = AuditLog(path, SystemClock(), max_bytes=600)
        log.write(RECORD._replace(name=str(number)))
        log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == KEPT_FILES
    assert all(file.stat().st_size <= 600 for file in files)
    assert json.loads(path.read_text().splitlines()[-1])["name"] == "39"


def test_audit_log_lets_the_server_go_on_when_it_cannot_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is logged once."""
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    log = AuditLog(path, SystemClock())
    log.write(RECORD)
    log.write(RECORD)
    log.close()
    assert [record.message for record in caplog.records] == ["audit log cannot be written"]
