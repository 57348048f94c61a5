"""The health pages: /healthz, /livez and /readyz, and each check alone.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go.
"""

from collections.abc import Mapping

from pykubelet.api.go_query import pairs
from pykubelet.api.health_checks import Check, Health, health_of_all, health_of_one

PAGES = ("healthz", "livez", "readyz")


def page(path: str, raw_query: str, checks: Mapping[str, Check]) -> Health | None:
    """The answer at a path: `/readyz` runs all checks, `/readyz/ping` one; None if it is no health page."""
    name, slash, single = path.removeprefix("/").partition("/")
    if name not in PAGES or (slash and single not in checks):
        return None
    return health_of_one(single, checks) if slash else health_of_all(name, pairs(raw_query), checks)
