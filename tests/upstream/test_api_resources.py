"""The kinds that our server serves, compared with `kubectl api-resources -o wide` against kube-apiserver 1.34."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykubelet.apiserver.nonresource import NonResourceHandler, NonResourceRequest
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.httpserver.request import read_target

_RECORDED = Path(__file__).parent / "vectors" / "api-resources.txt"
_VERSIONS = sorted({kind.resource.api_version for kind in BUILT_IN_KINDS})
# kubectl shows the preferred version of a group only.
_SHOWN_AS = {"autoscaling/v1": "autoscaling/v2"}


class ApiResource(NamedTuple):
    """One line of the table."""

    name: str
    short_names: str
    namespaced: bool
    kind: str
    verbs: str
    categories: str


def recorded() -> dict[str, dict[str, ApiResource]]:
    """The resources of each API version, by name. Short names and categories may be missing in a line."""
    found: dict[str, dict[str, ApiResource]] = defaultdict(dict)
    for line in _RECORDED.read_text().splitlines():
        words = line.split()
        at = next(place for place, word in enumerate(words) if word in ("true", "false"))
        short_names = words[1] if at == 3 else ""
        categories = words[at + 3] if len(words) > at + 3 else ""
        namespaced, kind, verbs = words[at : at + 3]
        one = ApiResource(words[0], short_names, namespaced == "true", kind, verbs, categories)
        found[words[at - 1]][one.name] = one
    return found


def shown(resource: dict[str, Any]) -> ApiResource:
    short_names, categories = (",".join(resource.get(key, ())) for key in ("shortNames", "categories"))
    verbs = ",".join(sorted(resource["verbs"]))
    return ApiResource(resource["name"], short_names, resource["namespaced"], resource["kind"], verbs, categories)


@pytest.mark.parametrize("version", _VERSIONS)
async def test_resources_are_those_of_kube_apiserver(version: str) -> None:
    """Name, short names, scope, kind, verbs and categories are equal; the server may lack a resource."""
    pages = NonResourceHandler(
        kinds=ServedKinds(BUILT_IN_KINDS), address="192.0.2.7:6443", checks={}, metrics_page=bytes, more={}
    )
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    reply = await pages.answer(NonResourceRequest("GET", read_target(path)))
    assert reply is not None
    served = [shown(one) for one in json.loads(reply.body)["resources"] if "/" not in one["name"]]
    assert served == [recorded()[_SHOWN_AS.get(version, version)][one.name] for one in served]
    assert served
