"""Escapes field names that are no identifiers: `__dash__` for a dash, `__in__` for a reserved word.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/escaping.go
"""

import re
from functools import lru_cache

from pykubelet.api.cel.parser import RESERVED

_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAMES = {escape.strip("_"): text for text, escape in _ESCAPES.items()}
_SPECIAL = re.compile(r"__|[./-]")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPED = re.compile(r"__[^_]+__")


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Returns the escaped name of a field; None if it cannot be accessed."""
    if name in RESERVED:
        return f"__{name}__"
    if _NAME.fullmatch(name) is None:
        return None
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)


@lru_cache(maxsize=4096)
def unescape(name: str) -> str | None:
    """Returns the field of an escaped name; None if the name is not valid."""
    wrong = False

    def plain(match: re.Match[str]) -> str:
        nonlocal wrong
        content = match[0][2:-2]
        wrong |= content not in _NAMES and not (content in RESERVED and match[0] == name)
        return _NAMES.get(content, content)

    result = _ESCAPED.sub(plain, name)
    return None if wrong else result
