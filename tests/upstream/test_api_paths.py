"""Every operation that kube-apiserver 1.34 publishes is served, but for those that the docs name as missing."""

import re
from pathlib import Path

import pytest

from pykubelet.api.errors import ApiError
from pykubelet.apiserver.filters.requestinfo import request_info, served_at
from pykubelet.apiserver.nonresource import NonResourceHandler, NonResourceRequest
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.httpserver.request import read_target
from pykubelet.httpserver.response import NOT_FOUND

_OPERATIONS = [line.split() for line in (Path(__file__).parent / "vectors/api-operations.txt").read_text().splitlines()]
_DIFFERENCES = Path(__file__).parents[2] / "docs/differences.md"
_KINDS = ServedKinds(BUILT_IN_KINDS)
# The programs add these pages, which need keys.
_KEYS = ("/.well-known/openid-configuration/", "/openid/v1/jwks/")
MISSING = {"apiregistration.k8s.io"}
"""The API groups that are not served."""


def group_of(path: str) -> str:
    """The API group of a path; empty for the core group and other pages."""
    return path.split("/")[2] if path.startswith("/apis/") else ""


async def is_served(method: str, path: str) -> bool:
    """Whether the server has a handler for the operation, and discovery pages answer."""
    info = request_info(method, re.sub(r"\{\w+\}", "x", path), {})
    if info is not None:
        try:
            return served_at(info, _KINDS.find) is not None
        except ApiError:
            return False
    pages = NonResourceHandler(
        kinds=_KINDS,
        address="192.0.2.7:6443",
        checks={},
        metrics_page=bytes,
        more=dict.fromkeys(_KEYS, lambda: NOT_FOUND),
    )
    return await pages.answer(NonResourceRequest(method, read_target(path))) is not None


async def test_every_published_operation_is_served() -> None:
    missing = [
        f"{method} {path}"
        for method, path in _OPERATIONS
        if group_of(path) not in MISSING and not await is_served(method, path)
    ]
    assert missing == []


@pytest.mark.parametrize("group", sorted(MISSING))
async def test_missing_group_is_named_in_the_docs(group: str) -> None:
    """A group that is served now does not belong into the list of missing ones."""
    assert f"`{group}`" in _DIFFERENCES.read_text()
    assert not any([await is_served(method, path) for method, path in _OPERATIONS if group_of(path) == group])
