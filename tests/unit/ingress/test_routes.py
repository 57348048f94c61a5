"""Which backend serves a host and a path, compared with a model that looks at every rule."""

from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from ingress_lab import ingress
from pykubelet.api.generated.core import TypedLocalObjectReference
from pykubelet.api.generated.networking import (
    HTTPIngressPath,
    HTTPIngressRuleValue,
    Ingress,
    IngressBackend,
    IngressRule,
    IngressTLS,
)
from pykubelet.ingress.routes import MatchKind, Place, Route, RouteConflict, Routes, ServicePortReference

HOSTS = ("", "example.com", "a.example.com", "*.example.com", "*.a.example.com")
REQUESTED = ("example.com", "a.example.com", "b.example.com", "b.a.example.com", "other", "")
PATHS = ("", "/", "/a", "/a/", "/a/b", "/a/b/", "/ab", "/b", "/a/b/c", "/a%20b", "/a b")
ASKED = (*PATHS[1:], "/a/x", "/a//b", "/a/b/c/d", "/abc", "//", "/a%2Fb", "/%61/b", "/a/b//", "/é", "/%zz")
rules = st.tuples(
    st.sampled_from(HOSTS),
    st.sampled_from(("Exact", "Prefix", "ImplementationSpecific")),
    st.sampled_from(PATHS),
    st.integers(0, 9).map(str),
)
ingresses = st.builds(
    lambda name, listed, default, day: ingress(name, *listed, default=default, created=f"2026-01-{day:02}T00:00:00Z"),
    st.sampled_from(("one", "two", "three")),
    st.lists(rules, max_size=5),
    st.sampled_from(("", "", "default")),
    st.integers(1, 3),
)


def _order(one: Ingress) -> tuple[str, str]:
    return one.metadata.creation_timestamp or "", one.metadata.name


def _elements(path: str) -> list[str]:
    return [unquote(element) for element in path[1:].split("/")]


def _matches_host(rule: str, host: str) -> int:
    """How specifically a host matches; 0: not at all."""
    if rule == host != "":
        return 3
    if rule.startswith("*.") and host.partition(".")[2] == rule[2:]:
        return 2
    return int(not rule)


def _matches_path(kind: str, rule: str, path: str) -> tuple[int, int] | None:
    asked, known = _elements(path), _elements(rule)
    if kind == "Exact":
        return (len(asked), 1) if asked == known else None
    if known[-1] == "":
        known.pop()
    return (len(known), 0) if asked[: len(known)] == known else None


def _naive(known: dict[str, Ingress], host: str, path: str) -> str | None:
    """The Service of the best rule, or of the best default backend."""
    best: tuple[int, ...] = ()
    chosen: str | None = None
    for one in sorted(known.values(), key=_order):
        for rule in one.spec.rules:
            level = _matches_host(rule.host, host)
            for each in rule.http.paths if rule.http is not None and level else ():
                matched = _matches_path(each.path_type or "", each.path, path)
                if matched is not None and (score := (level, *matched)) > best:
                    assert each.backend.service is not None
                    best, chosen = score, each.backend.service.name
    if chosen is not None:
        return chosen
    for one in sorted(known.values(), key=_order):
        for name in [rule.host for rule in one.spec.rules] or [""]:
            specificity = (_matches_host(name, host),)
            if one.spec.default_backend is not None and specificity > max(best, (0,)):
                assert one.spec.default_backend.service is not None
                best, chosen = specificity, one.spec.default_backend.service.name
    return chosen


def _service(route: Route | None) -> str | None:
    if route is None:
        return None
    assert route.backend is not None
    return route.backend.service.removeprefix("default/")


@given(st.lists(st.one_of(ingresses, st.sampled_from(("one", "two", "three"))), max_size=8))
def test_route_is_that_of_a_search_through_all_rules(changes: list[Ingress | str]) -> None:
    routes, known = Routes(), dict[str, Ingress]()
    for change in changes:
        if isinstance(change, str):
            routes.remove(f"default/{change}")
            known.pop(change, None)
        else:
            routes.put(change)
            known[change.metadata.name] = change
    for host in REQUESTED:
        for path in ASKED:
            assert _service(routes.find(host, path)) == _naive(known, host, path), (host, path)
    for name in known:
        routes.remove(f"default/{name}")
    assert vars(routes) == vars(Routes())


def test_prefix_matches_whole_elements_and_exact_the_whole_path() -> None:
    routes = Routes()
    routes.put(ingress("web", ("", "Prefix", "/aaa/bbb", "prefix"), ("", "Exact", "/aaa", "exact")))
    assert _service(routes.find("", "/aaa/bbb")) == "prefix"
    assert _service(routes.find("", "/aaa/bbb/ccc")) == "prefix"
    assert _service(routes.find("", "/aaa/bbb/")) == "prefix"
    assert routes.find("", "/aaa/bbbxyz") is None
    assert _service(routes.find("", "/aaa")) == "exact"
    assert routes.find("", "/aaa/") is None


def test_wildcard_stands_for_exactly_one_label() -> None:
    routes = Routes()
    routes.put(ingress("web", ("*.foo.com", "Prefix", "/", "wild"), ("x.foo.com", "Prefix", "/x", "own")))
    assert _service(routes.find("bar.foo.com", "/")) == "wild"
    assert routes.find("baz.bar.foo.com", "/") is None
    assert routes.find("foo.com", "/") is None
    # The host itself comes first, for the paths that it has.
    assert _service(routes.find("x.foo.com", "/x")) == "own"
    assert _service(routes.find("x.foo.com", "/y")) == "wild"


def test_oldest_ingress_has_a_path_that_several_claim_and_the_next_one_follows_it() -> None:
    routes = Routes()
    old = ingress("old", ("a.com", "Prefix", "/", "old"), created="2026-01-01T00:00:00Z")
    new = ingress(
        "new", ("a.com", "Prefix", "/", "new"), ("a.com", "Exact", "/n", "new"), created="2026-01-02T00:00:00Z"
    )
    routes.put(new)
    assert list(routes.conflicts("default/new")) == []
    routes.put(old)
    place = Place("a.com", MatchKind.PREFIX, ())
    assert list(routes.conflicts("default/new")) == [RouteConflict(place, "default/old")]
    assert (list(routes.conflicts("default/old")), routes.rivals("default/new")) == ([], set())
    assert routes.rivals("default/old") == {"default/new"}
    assert str(place) == "path / of host a.com"
    assert _service(routes.find("a.com", "/")) == "old"
    assert _service(routes.find("a.com", "/n")) == "new"
    routes.remove("default/old")
    assert _service(routes.find("a.com", "/")) == "new"
    assert list(routes.conflicts("default/new")) == []


def test_backend_names_a_port_by_name_or_number_or_is_none_for_a_resource() -> None:
    reference = TypedLocalObjectReference(api_group="example.com", kind="Bucket", name="static")
    rule = HTTPIngressPath(path="/r", path_type="Prefix", backend=IngressBackend(resource=reference))
    rules = (IngressRule(http=HTTPIngressRuleValue(paths=(rule,))),)
    found, plain = Routes(), ingress("web")
    found.put(Ingress(metadata=plain.metadata, spec=type(plain.spec)(rules=rules)))
    assert found.find("", "/r") == Route("default/web", None)
    found.put(ingress("web", default="rest"))
    assert found.find("any", "/") == Route("default/web", ServicePortReference("default/rest", 80))


def test_hosts_with_tls_redirect() -> None:
    tls = (IngressTLS(hosts=("*.a.com",), secret_name="wild"), IngressTLS(hosts=("B.com",)))
    rules = [(host, "Prefix", "/", "web") for host in ("x.a.com", "b.com", "c.com")]
    routes = Routes()
    routes.put(ingress("web", *rules, tls=tls))
    assert [found.redirects for host, *_ in rules if (found := routes.find(host, "/"))] == [True, True, False]
    # An entry without hosts is for those of the rules.
    routes.put(ingress("web", *rules, tls=(IngressTLS(secret_name="all"),)))
    assert all(found.redirects for host, *_ in rules if (found := routes.find(host, "/")))
