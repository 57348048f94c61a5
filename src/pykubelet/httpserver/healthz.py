"""What a health page says of its checks: all of them, one alone, `?verbose` and `?exclude=`.

In: the named checks and the pairs of the query. Out: a code, the text, and what is wrong for the log: whoever asks for
all checks is not told why one fails.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Check = Callable[[], str]
"""Gives what is wrong; nothing if all is well."""


class HealthzResponse(NamedTuple):
    """What a health page answers, and what is wrong, by check, for the log."""

    code: int
    text: str
    failed: Mapping[str, str]


def health_of_one(name: str, checks: Mapping[str, Check]) -> HealthzResponse:
    """The answer of a check that there is."""
    wrong = checks[name]()
    return (
        HealthzResponse(500, f"internal server error: {wrong}\n", {name: wrong})
        if wrong
        else HealthzResponse(200, "ok", {})
    )


def health_of_all(page: str, query: Sequence[tuple[str, str]], checks: Mapping[str, Check]) -> HealthzResponse:
    """The answer of all checks but those that the query excludes; `page` is the name of the page."""
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
