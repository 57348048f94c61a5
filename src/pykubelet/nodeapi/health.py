"""The health page: all checks, or one alone.

Upstream: InstallDefaultHandlers in pkg/kubelet/server/server.go
"""

from collections.abc import Mapping, Sequence

from pykubelet.api.health_checks import Check, health_of_all, health_of_one
from pykubelet.nodeapi.replies import NOT_FOUND, Reply, text_reply


def health_page(check: str, query: Sequence[tuple[str, str]], checks: Mapping[str, Check]) -> Reply:
    """The answer of all checks, or of the one that is named."""
    if check and check not in checks:
        return NOT_FOUND
    found = health_of_one(check, checks) if check else health_of_all("healthz", query, checks)
    return text_reply(found.code, found.text)
