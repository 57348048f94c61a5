"""When a service account token is due for a new one.

Upstream: requiresRefresh in pkg/kubelet/token/token_manager.go
"""

from datetime import datetime, timedelta

MAX_AGE = timedelta(hours=24)
MAX_JITTER = timedelta(seconds=10)
_KEPT_SHARE = 0.8


def is_refresh_due(*, lifetime_seconds: int, expires_at: datetime, now: datetime, jitter: timedelta) -> bool:
    """Whether a token is older than a day, or than four fifths of its life; the jitter makes both a little earlier."""
    issued_at = expires_at - timedelta(seconds=lifetime_seconds)
    due = min(MAX_AGE, timedelta(seconds=lifetime_seconds) * _KEPT_SHARE)
    return now > issued_at + due - jitter
