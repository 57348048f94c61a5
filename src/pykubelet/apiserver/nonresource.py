"""Serves the paths that are not resources: discovery, OpenAPI, health, version, metrics.

Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/version.go,
staging/src/k8s.io/apiserver/pkg/server/routes/metrics.go, staging/src/k8s.io/apiserver/pkg/server/routes/openapi.go,
staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go, staging/src/k8s.io/component-base/version/version.go
"""

import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from pykubelet import __version__
from pykubelet.aio.log import get_logger
from pykubelet.api.serializer import Document
from pykubelet.apiserver import discovery
from pykubelet.apiserver.authentication.serviceaccount import ServiceAccountTokens
from pykubelet.apiserver.errors import no_such_method
from pykubelet.apiserver.filters import metrics
from pykubelet.apiserver.handlers import responsewriters
from pykubelet.apiserver.handlers.responsewriters import ResponseFormat
from pykubelet.apiserver.openapi.handler import V2_PROTOBUF, OpenApi, PublishedDocument
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.httpserver.healthz import Check, HealthzResponse, health_of_all, health_of_one
from pykubelet.httpserver.request import RequestTarget, pairs
from pykubelet.httpserver.response import JSON, HttpResponse, text_response

OPENID_PATH = "/.well-known/openid-configuration"
HEALTH_PATHS = ("healthz", "livez", "readyz")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
log = get_logger(__name__)
_AGGREGATED_TYPE = f"{JSON};g={responsewriters.DISCOVERY_GROUP};v=v2;as={responsewriters.GROUP_DISCOVERY}"
_READING = ("GET", "HEAD")


class NonResourceRequest(NamedTuple):
    """What a non-resource handler needs of a request."""

    method: str
    target: RequestTarget
    accept: str = ""
    if_none_match: str = ""
    user_agent: str = ""


class NonResourceHandler:
    """Serves the paths that are not resources. Discovery documents are cached until the served kinds change."""

    def __init__(
        self,
        *,
        kinds: ServedKinds,
        address: str,
        checks: Mapping[str, Check],
        metrics_page: Callable[[], bytes],
        more: Mapping[str, Callable[[], HttpResponse]],
    ) -> None:
        self._kinds, self._address, self._checks, self._metrics_page = kinds, address, checks, metrics_page
        self._openapi = OpenApi(kinds)
        self._made: dict[str, Document | None] = {}
        self._etags: dict[str, str] = {}
        self._generation = -1
        self._fixed: dict[str, Callable[[], HttpResponse]] = {
            "/": self._index,
            "/index.html": self._index,
            "/version": _version,
            "/version/": _version,
            **more,
        }

    async def answer(self, visit: NonResourceRequest) -> HttpResponse | None:
        """The response at the request's path; None if there is none."""
        path = visit.target.path
        if page := self._open_page(visit):
            return page
        first = path.split("/", 2)[1]
        reply: HttpResponse | None = None
        if path in self._fixed:
            reply = self._fixed[path]()
        elif first in ("api", "apis"):
            reply = self._discovery(visit)
        elif first == "openapi":
            reply = await self._open_api(visit)
        if reply is not None and visit.method not in _READING:
            raise no_such_method()
        return reply

    def is_of_known_group(self, path: str) -> bool:
        """Whether a path is below a built-in group, where a missing path gets a Status."""
        first, _, rest = path.removeprefix("/").partition("/")
        if first != "apis":
            return first == "api"
        group = rest.partition("/")[0]
        return any(served.resource.group == group for served in self._kinds.all() if served.definition)

    def _open_page(self, visit: NonResourceRequest) -> HttpResponse | None:
        """Health and metrics, which accept any method."""
        path = visit.target.path
        if path == "/metrics":
            return HttpResponse(200, self._metrics_page(), metrics.CONTENT_TYPE)
        found = health_page(path, visit.target.raw_query, self._checks)
        if found is None:
            return None
        for check, wrong in found.failed.items():
            log.warning("health check failed", check=check, reason=wrong)
        return text_response(found.code, found.text)

    def _index(self) -> HttpResponse:
        served = self._kinds.all()
        groups = discovery.api_group_list(served)["groups"]
        paths = {"/api", "/api/v1", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version", *self._fixed}
        paths |= {f"/{page}" for page in HEALTH_PATHS}
        paths |= {f"/{page}/{check}" for page in HEALTH_PATHS for check in self._checks}
        for group in groups:
            paths |= {f"/apis/{group['name']}", *(f"/apis/{row['groupVersion']}" for row in group["versions"])}
        return responsewriters.document_response(
            {"paths": sorted(paths - {"/", "/index.html", "/version/"})}, ResponseFormat(), pretty=True
        )

    def _discovery(self, visit: NonResourceRequest) -> HttpResponse | None:
        parts = visit.target.path.strip("/").split("/")
        if len(parts) == 1:
            form = responsewriters.discovery_form(visit.accept)
            if form.kind == responsewriters.GROUP_DISCOVERY:
                return self._aggregated(visit, parts[0])
        else:
            form = responsewriters.plain_form(visit.accept)
        document = self._once("/".join(parts), lambda: self._plain(parts))
        if document is None:
            return None
        return responsewriters.document_response(
            document, form, pretty=responsewriters.wants_pretty(form, visit.target.query, visit.user_agent)
        )

    def _plain(self, parts: list[str]) -> Document | None:
        served = self._kinds.all()
        match parts:
            case ["api"]:
                return discovery.api_versions(self._address)
            case ["api", version]:
                return discovery.api_resource_list(served, "", version)
            case ["apis"]:
                return discovery.api_group_list(served)
            case ["apis", group]:
                return discovery.api_group(served, group)
            case ["apis", group, version] if group:
                return discovery.api_resource_list(served, group, version)
        return None

    def _aggregated(self, visit: NonResourceRequest, root: str) -> HttpResponse:
        name = f"{root} aggregated"
        document = self._once(name, lambda: discovery.aggregated(self._kinds.all(), legacy=root == "api"))
        assert document is not None
        etag = self._etags.get(name)
        if etag is None:
            etag = self._etags[name] = discovery.etag_of(document)
        headers = (("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if visit.if_none_match == etag:
            return HttpResponse(304, b"", "", headers)
        reply = responsewriters.document_response(document, ResponseFormat(), pretty=False)
        return reply._replace(content_type=_AGGREGATED_TYPE, headers=headers)

    def _once(self, name: str, make: Callable[[], Document | None]) -> Document | None:
        generation = self._kinds.generation
        if generation != self._generation:
            self._generation = generation
            self._made.clear()
            self._etags.clear()
        if name in self._made:
            return self._made[name]
        made = make()
        if made is not None:
            # Only existing documents are cached, so that made-up names cannot fill the memory.
            self._made[name] = made
        return made

    async def _open_api(self, visit: NonResourceRequest) -> HttpResponse | None:
        match visit.target.path.strip("/").split("/", 2):
            case ["openapi", "v2"]:
                protobuf = V2_PROTOBUF in visit.accept and "json" not in visit.accept.partition(",")[0]
                return _published(await self._openapi.v2(protobuf=protobuf), visit)
            case ["openapi", "v3"]:
                return _published(await self._openapi.v3(), visit)
            case ["openapi", "v3", path]:
                found = await self._openapi.v3_of(path)
                return None if found is None else _published(found, visit)
        return None


def health_page(path: str, raw_query: str, checks: Mapping[str, Check]) -> HealthzResponse | None:
    """The response at a health path: `/readyz` runs all checks, `/readyz/ping` one; None for another path."""
    name, slash, single = path.removeprefix("/").partition("/")
    if name not in HEALTH_PATHS or (slash and single not in checks):
        return None
    return health_of_one(single, checks) if slash else health_of_all(name, pairs(raw_query), checks)


@cache
def version_document() -> Document:
    """The document at /version. Every field is set, because some clients reject a version without one."""
    machine = platform.machine()
    return {
        "major": "1",
        "minor": "34",
        "emulationMajor": "1",
        "emulationMinor": "34",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "33",
        "gitVersion": f"v1.34.11+pykubelet.{__version__}",
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
    }


def openid_configuration(tokens: ServiceAccountTokens, server_url: str) -> HttpResponse:
    """The OpenID configuration with which others can verify service account tokens."""
    return HttpResponse(200, tokens.discovery(server_url))


def json_web_keys(tokens: ServiceAccountTokens) -> HttpResponse:
    """The public keys of service account tokens."""
    return HttpResponse(200, tokens.key_set(), "application/jwk-set+json")


def _version() -> HttpResponse:
    return responsewriters.document_response(version_document(), ResponseFormat(), pretty=True)


def _published(found: PublishedDocument, visit: NonResourceRequest) -> HttpResponse:
    headers = (("ETag", found.etag), ("Vary", "Accept"))
    if visit.if_none_match == found.etag:
        return HttpResponse(304, b"", "", headers)
    return HttpResponse(200, found.text, found.content_type, headers)
