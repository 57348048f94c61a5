"""Which registry credentials are used for which image."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Secret
from pykubelet.kubelet.images.image_manager import DockerKeyring, keyring_of
from pykubelet.testing.build import secret

JSON_TYPE = "kubernetes.io/dockerconfigjson"


def of(*locations: str) -> DockerKeyring:
    auths = {location: {"username": location, "password": "secret"} for location in locations}
    return keyring_of([docker_config(auths)])


def docker_config(auths: Any) -> Secret:
    return secret("pull", {".dockerconfigjson": json.dumps({"auths": auths}).encode()}, type=JSON_TYPE)


MATCHES = {
    "host": (["reg.example"], "reg.example/app:1", ["reg.example"]),
    "other host": (["reg.example"], "other.example/app:1", []),
    "port": (["reg.example:5000"], "reg.example:5000/app", ["reg.example:5000"]),
    "other port": (["reg.example:5000"], "reg.example/app", []),
    "path": (["reg.example/team"], "reg.example/team/app", ["reg.example/team"]),
    "other path": (["reg.example/team"], "reg.example/other/app", []),
    "most specific first": (
        ["reg.example", "reg.example/team/app", "reg.example/team"],
        "reg.example/team/app:2",
        ["reg.example/team/app", "reg.example/team", "reg.example"],
    ),
    "glob": (["*.reg.example"], "a.reg.example/app", ["*.reg.example"]),
    "glob is one part": (["*.reg.example"], "a.b.reg.example/app", []),
    "scheme and API version": (["https://reg.example/v2/"], "reg.example/app", ["https://reg.example/v2/"]),
    "default registry": (["https://index.docker.io/v1/"], "nginx", ["https://index.docker.io/v1/"]),
    "default registry with user": (["index.docker.io"], "someone/app:1", ["index.docker.io"]),
    "not the default registry": (["index.docker.io"], "reg.example/app", []),
    "no name": (["reg.example"], "http://reg.example", []),
}


@pytest.mark.parametrize(("locations", "image", "users"), MATCHES.values(), ids=MATCHES)
def test_credentials_are_those_of_the_registry(locations: list[str], image: str, users: list[str]) -> None:
    """Locations match by host, port and path."""
    assert [one.username for one in of(*locations).credentials(image)] == users


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ENTRIES = {
    "both in one": ({"auth": encoded("me:pass:word")}, ("me", "pass:word")),
    "both in one goes first": ({"username": "x", "auth": encoded("me:p")}, ("me", "p")),
    "without padding": ({"auth": encoded("me:p1").rstrip("=")}, ("me", "p1")),
    "no colon": ({"auth": encoded("me")}, None),
    "no base64": ({"auth": "§"}, None),
    "no entry": ("me:p", None),
}


@pytest.mark.parametrize(("entry", "found"), ENTRIES.values(), ids=ENTRIES)
def test_entry_is_read_in_each_form(entry: Any, found: tuple[str, str] | None) -> None:
    """Entries that cannot be decoded are skipped."""
    credentials = keyring_of([docker_config({"reg.example": entry})]).credentials("reg.example/app")
    assert [(one.username, one.password) for one in credentials] == ([found] if found else [])


def test_dockercfg_is_read_and_other_secrets_are_not() -> None:
    """The older format has no `auths`; secrets of other types hold no credentials."""
    old = json.dumps({"reg.example": {"username": "me", "password": "p"}}).encode()
    assert keyring_of([secret("a", {".dockercfg": old}, type="kubernetes.io/dockercfg")]).credentials("reg.example/x")
    for other in (
        secret("b", {".dockercfg": old}, type="Opaque"),
        secret("c", {".dockerconfigjson": b"{"}, type=JSON_TYPE),
        secret("d", {".dockerconfigjson": b"[]"}, type=JSON_TYPE),
        secret("e", {}, type=JSON_TYPE),
    ):
        assert keyring_of([other]).keys == ()


def test_keyring_is_never_shown() -> None:
    """Its repr contains no passwords."""
    assert "secret" not in repr(of("reg.example"))


@settings(max_examples=100)
@given(
    st.text("abc.*:/", max_size=12),
    st.from_regex(r"[a-c]\.(example|test)(:50)?/[a-c]{1,2}(/[a-c])?", fullmatch=True),
)
def test_credentials_never_go_to_another_registry(location: str, image: str) -> None:
    """The host of the location, unless it has a glob, equals the host of the image."""
    host = location.split("/", maxsplit=1)[0]
    given = of(location).credentials(image)
    assert not given or "*" in host or host == image.split("/", maxsplit=1)[0]
