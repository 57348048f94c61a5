"""The health pages: /healthz, /livez and /readyz, each check alone, `?verbose` and `?exclude=`.

In: the named checks and the request's query. Out: a code and the text. Why a check fails is told in the log, not
here: these pages are open to everybody.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykubelet.apiserver.http.targets import pairs

Check = Callable[[], str]
"""Gives what is wrong; nothing if all is well."""
PAGES = ("healthz", "livez", "readyz")


class Health(NamedTuple):
    """What a health page answers, and what is wrong, by check, for the log."""

    code: int
    text: str
    failed: Mapping[str, str]


def page(path: str, raw_query: str, checks: Mapping[str, Check]) -> Health | None:
    """The answer at a path: `/readyz` runs all checks, `/readyz/ping` one; None if it is no health page."""
    name, slash, single = path.removeprefix("/").partition("/")
    if name not in PAGES or (slash and single not in checks):
        return None
    query = pairs(raw_query)
    excluded = {value for key, value in query if key == "exclude"}
    if slash:
        wrong = checks[single]()
        return Health(500, f"internal server error: {wrong}\n", {single: wrong}) if wrong else Health(200, "ok", {})
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
        return Health(500, "\n".join([*lines, f"{name} check failed", ""]), failed)
    verbose = any(key == "verbose" for key, _ in query)
    return Health(200, "\n".join([*lines, f"{name} check passed", ""]) if verbose else "ok", {})
