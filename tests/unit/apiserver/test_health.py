"""The health pages word for word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.nonresource import health_page
from pykubelet.httpserver.healthz import Check

CHECKS: dict[str, Check] = {"ping": lambda: "", "etcd": lambda: "", "log": lambda: ""}
BROKEN: dict[str, Check] = {**CHECKS, "etcd": lambda: "disk full"}


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        pytest.param("/healthz", "", "ok", id="short"),
        pytest.param("/livez/ping", "", "ok", id="one check"),
        pytest.param("/readyz", "verbose", "[+]ping ok\n[+]etcd ok\n[+]log ok\nreadyz check passed\n", id="verbose"),
        pytest.param(
            "/livez",
            "verbose=1&exclude=etcd&exclude=x&exclude=b",
            "[+]ping ok\n[+]etcd excluded: ok\n[+]log ok\n"
            'warn: some health checks cannot be excluded: no matches for "b","x"\nlivez check passed\n',
            id="exclude",
        ),
    ],
)
def test_page_says_ok_when_every_check_passes(path: str, query: str, text: str) -> None:
    """The pages are short, verbose, of one check, and with exclusions."""
    found = health_page(path, query, CHECKS)
    assert found is not None
    assert (found.code, found.text, dict(found.failed)) == (200, text, {})


def test_page_names_the_failed_check_and_keeps_the_reason_for_the_log() -> None:
    """Only the page of a single check shows the reason."""
    found = health_page("/readyz", "", BROKEN)
    assert found is not None
    assert found.text == "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed\n"
    assert (found.code, dict(found.failed)) == (500, {"etcd": "disk full"})
    single = health_page("/readyz/etcd", "", BROKEN)
    assert single is not None
    assert (single.code, single.text) == (500, "internal server error: disk full\n")
    excluded = health_page("/readyz", "exclude=etcd", BROKEN)
    assert excluded is not None
    assert excluded.code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/healthz/", "/healthz/nope", "/livez/ping/x", "/api"])
def test_page_is_none_elsewhere(path: str) -> None:
    """Other paths are not health pages."""
    assert health_page(path, "", CHECKS) is None


@given(st.sets(st.sampled_from(["ping", "etcd", "log"])), st.sets(st.sampled_from(["ping", "etcd", "log", "x"])))
@settings(max_examples=50)
def test_page_fails_exactly_if_a_check_that_is_not_excluded_fails(failing: set[str], excluded: set[str]) -> None:
    """This holds for every combination."""
    checks: dict[str, Check] = {name: (lambda: "bad") if name in failing else (lambda: "") for name in CHECKS}
    found = health_page("/livez", "&".join(f"exclude={name}" for name in excluded), checks)
    assert found is not None
    assert (found.code == 500) == bool(failing - excluded)
