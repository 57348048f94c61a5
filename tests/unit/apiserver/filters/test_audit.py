"""The audit log: one line for each write, in a few files of limited size."""

import json
import stat
from pathlib import Path

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.apiserver.filters.audit import (
    ANONYMOUS_BYTES,
    ANONYMOUS_SECONDS,
    KEPT_FILES,
    MAX_TEXT,
    AuditLog,
    AuditRecord,
)
from pykubelet.testing.virtual_time import ManualClock

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


def test_audit_log_cuts_long_texts(tmp_path: Path) -> None:
    """A client chooses its user agent and the path of a request."""
    log = AuditLog(tmp_path / "audit.log", SystemClock())
    log.write(RECORD._replace(name="n" * 60_000, resource="r" * 60_000, user_agent="u" * 60_000))
    log.close()
    text = (tmp_path / "audit.log").read_text()
    assert json.loads(text)["name"] == "n" * MAX_TEXT + "..."
    assert len(text) < 2048


def test_rejected_anonymous_requests_do_not_push_other_lines_out(tmp_path: Path) -> None:
    """They get a few lines a minute and one with the number of the others, which is written later or at the end."""
    clock = ManualClock()
    log = AuditLog(tmp_path / "audit.log", clock, max_bytes=4 * ANONYMOUS_BYTES)
    log.write(RECORD)
    rejected = RECORD._replace(user="system:anonymous", code=403, user_agent="u" * 60_000)
    for _ in range(600):
        log.write(rejected)
    log.write(RECORD._replace(name="during"))
    clock.advance(ANONYMOUS_SECONDS)
    log.write(RECORD._replace(name="after"))
    for _ in range(600):
        log.write(rejected)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [line["name"] for line in lines if line["user"] == "admin"] == ["web", "during", "after"]
    dropped = [line["dropped"] for line in lines if "dropped" in line]
    own = sum(line.get("code") == 403 for line in lines)
    assert own + sum(dropped) == 1200
    assert len(dropped) == 2
    assert 4 < own < 40


def test_audit_log_has_every_request_of_a_user(tmp_path: Path) -> None:
    """Also rejected ones, and those of anonymous users that were permitted."""
    log = AuditLog(tmp_path / "audit.log", ManualClock())
    for user, code in (("admin", 403), ("system:anonymous", 201)):
        for _ in range(100):
            log.write(RECORD._replace(user=user, code=code))
    log.close()
    assert len((tmp_path / "audit.log").read_text().splitlines()) == 200


def test_audit_log_lets_the_server_go_on_when_it_cannot_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is logged once."""
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    log = AuditLog(path, SystemClock())
    log.write(RECORD)
    log.write(RECORD)
    log.close()
    assert [record.message for record in caplog.records] == ["audit log cannot be written"]
