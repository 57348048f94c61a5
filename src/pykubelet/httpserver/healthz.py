"""Health endpoints: all checks or a single one, with `?verbose` and `?exclude=`.

The response for all checks withholds why a check failed; the reasons are for the log.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Check = Callable[[], str]
"""Returns the reason why a check fails; empty if it passes."""


class HealthzResponse(NamedTuple):
    """The response of a health endpoint, and the reasons of failed checks for the log."""

    code: int
    text: str
    failed: Mapping[str, str]


def health_of_one(name: str, checks: Mapping[str, Check]) -> HealthzResponse:
    """Runs one existing check."""
    wrong = checks[name]()
    return (
        HealthzResponse(500, f"internal server error: {wrong}\n", {name: wrong})
        if wrong
        else HealthzResponse(200, "ok", {})
    )


def health_of_all(page: str, query: Sequence[tuple[str, str]], checks: Mapping[str, Check]) -> HealthzResponse:
    """Runs all checks but those that the query excludes; `page` is the endpoint's name."""
    excluded = {value for key, value in query if key == "exclude"}
    lines, failed = [], {}
    for check, find_fault in checks.items():
        if check in excluded:
            lines.append(f"[+]{check} excluded: ok")
        elif wrong := find_fault():
            failed[check] = wrong
            lines.append(f"[-]{check} failed: reason withheld")
        else:
            lines.append(f"[+]{check} ok")
    if unknown := sorted(excluded - checks.keys()):
        quoted = ",".join(f'"{each}"' for each in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if failed:
        return HealthzResponse(500, "\n".join([*lines, f"{page} check failed", ""]), failed)
    verbose = any(key == "verbose" for key, _ in query)
    return HealthzResponse(200, "\n".join([*lines, f"{page} check passed", ""]) if verbose else "ok", {})
