"""The health page: all checks, one alone, `?verbose` and `?exclude=`.

In: the named checks and the query. Out: a reply. Why a check fails is told in the log, and to who asks for it alone.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go
"""

from collections.abc import Callable, Mapping, Sequence

from pykubelet.nodeapi.replies import NOT_FOUND, Reply, text_reply

Check = Callable[[], str]
"""Gives what is wrong; nothing if all is well."""


def health_page(check: str, query: Sequence[tuple[str, str]], checks: Mapping[str, Check]) -> Reply:
    """The answer of all checks, or of the one that is named."""
    if check:
        return _single(checks[check]()) if check in checks else NOT_FOUND
    excluded = {value for key, value in query if key == "exclude"}
    lines, has_failed = [], False
    for name, find_fault in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif find_fault():
            has_failed = True
            lines.append(f"[-]{name} failed: reason withheld")
        else:
            lines.append(f"[+]{name} ok")
    if unknown := sorted(excluded - checks.keys()):
        quoted = ",".join(f'"{each}"' for each in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if has_failed:
        return text_reply(500, "\n".join([*lines, "healthz check failed", ""]))
    is_verbose = any(key == "verbose" for key, _ in query)
    return text_reply(200, "\n".join([*lines, "healthz check passed", ""]) if is_verbose else "ok")


def _single(wrong: str) -> Reply:
    return text_reply(500, f"internal server error: {wrong}\n") if wrong else text_reply(200, "ok")
