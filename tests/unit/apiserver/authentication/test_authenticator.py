"""Authentication of requests: client certificates, bearer tokens, and anonymous requests."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from access_objects import CountingIds, put, thing
from pykubelet.api.errors import Unauthorized
from pykubelet.apiserver.authentication.authenticator import Authenticator, bearer_token
from pykubelet.apiserver.authentication.serviceaccount import (
    BoundObject,
    ServiceAccountTokens,
    TokenError,
    TokenSubject,
)
from pykubelet.apiserver.authentication.tokenfile import read_token_file
from pykubelet.apiserver.certs.certificates import CertificateKeyPair, issue_client, make_authority, new_key
from pykubelet.apiserver.request import ANONYMOUS, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.testing.virtual_time import EPOCH, ManualClock

KEY = new_key()
AUTHORITY = make_authority(KEY, EPOCH)
STATIC = read_token_file('secret,bob,7,"g1,system:masters"\nanon,system:anonymous,,system:unauthenticated\n', "f")
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def der(pair: CertificateKeyPair) -> bytes:
    return pair.certificate.public_bytes(serialization.Encoding.DER)


def with_subject(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """A certificate whose subject has these attributes."""
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(EPOCH).not_valid_after(EPOCH + timedelta(days=1))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens(store: DurableStore, clock: ManualClock) -> ServiceAccountTokens:
    return ServiceAccountTokens(KEY, store.get, clock=clock, ids=CountingIds())


@pytest.fixture
def authenticator(tokens: ServiceAccountTokens, clock: ManualClock) -> Authenticator:
    return Authenticator(tokens, clock=clock, static=STATIC)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("  bearer abc  ", "abc"),
        ("BEARER abc def", "abc"),
        ("Bearer  abc", ""),
        ("Bearer", ""),
        ("Basic abc", ""),
        ("", ""),
    ],
)
def test_bearer_token_is_read_as_upstream_reads_it(header: str, token: str) -> None:
    """A second space makes the token empty; another scheme gives no token."""
    assert bearer_token(header) == token


async def test_request_without_credentials_is_anonymous(authenticator: Authenticator) -> None:
    """So is a request with another authorization scheme."""
    assert authenticator.authenticate({}, None) is ANONYMOUS
    assert authenticator.authenticate({"Authorization": "Basic eDp5"}, None) is ANONYMOUS


async def test_static_token_authenticates_its_user(authenticator: Authenticator) -> None:
    """Group system:authenticated is added, but not to the anonymous user of the file."""
    bob = authenticator.authenticate(bearer("secret"), None)
    assert bob == UserInfo("bob", ("g1", "system:masters", "system:authenticated"), "7")
    assert authenticator.authenticate(bearer("secret"), None) is bob
    assert authenticator.authenticate(bearer("anon"), None).groups == ("system:unauthenticated",)


@pytest.mark.parametrize("token", ["wrong", "secre", "secrett", "\udcff", "a.b.c", "{}"])
async def test_wrong_token_is_unauthorized(authenticator: Authenticator, token: str) -> None:
    """The request does not become anonymous; the message is the recorded one."""
    with pytest.raises(Unauthorized) as caught:
        authenticator.authenticate(bearer(token), None)
    status = caught.value.to_status()
    assert (status["message"], status["code"], "details" in status) == ("Unauthorized", 401, False)


async def test_account_token_authenticates_its_account(
    authenticator: Authenticator, tokens: ServiceAccountTokens, store: DurableStore
) -> None:
    """A token for another audience is refused here, and valid in a review for that audience."""
    await put(store, "serviceaccounts", thing("ServiceAccount", "bot", "ns"))
    subject = TokenSubject(namespace="ns", account=BoundObject("bot", "bot-uid"))
    token = tokens.issue(subject, audiences=tokens.audiences, seconds=600)
    user = authenticator.authenticate(bearer(token), None)
    assert user.name == "system:serviceaccount:ns:bot"
    assert authenticator.authenticate(bearer(token), None) is user
    elsewhere = tokens.issue(subject, audiences=["vault"], seconds=600)
    with pytest.raises(Unauthorized):
        authenticator.authenticate(bearer(elsewhere), None)
    assert authenticator.review(elsewhere, ("vault",))[1] == ("vault",)


async def test_client_certificate_authenticates_its_subject(authenticator: Authenticator) -> None:
    """The certificate takes precedence over a token and is read once."""
    certificate = der(issue_client(AUTHORITY, "system:node:n1", ["system:nodes"], EPOCH))
    user = authenticator.authenticate(bearer("wrong"), certificate)
    assert user.name == "system:node:n1"
    assert user.groups == ("system:nodes", "system:authenticated")
    (identifier,) = user.extra["authentication.kubernetes.io/credential-id"]
    assert identifier.startswith("X509SHA256=")
    assert authenticator.authenticate({}, bytes(bytearray(certificate))) is user


async def test_expired_certificate_is_refused_while_connected(authenticator: Authenticator, clock: ManualClock) -> None:
    """A token on the same connection still authenticates."""
    certificate = der(issue_client(AUTHORITY, "alice", [], EPOCH))
    assert authenticator.authenticate({}, certificate).name == "alice"
    clock.advance(366 * 86400)
    with pytest.raises(Unauthorized):
        authenticator.authenticate({}, certificate)
    assert authenticator.authenticate(bearer("secret"), certificate).name == "bob"


async def test_certificates_with_unusual_subjects(authenticator: Authenticator) -> None:
    """Without a name: anonymous. Several names: the last one. Two uids or invalid bytes: unauthorized."""
    name, group = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
    assert authenticator.authenticate({}, with_subject((group, "system:masters"))) is ANONYMOUS
    assert authenticator.authenticate({}, with_subject((name, "a"), (name, "b"))).name == "b"
    assert authenticator.authenticate({}, with_subject((name, "a"), (UID, "u"))).uid == "u"
    for wrong in (with_subject((name, "a"), (UID, "u"), (UID, "v")), b"nonsense"):
        with pytest.raises(Unauthorized):
            authenticator.authenticate({}, wrong)


async def test_static_token_is_for_this_server_only(authenticator: Authenticator, tokens: ServiceAccountTokens) -> None:
    """A review for another audience refuses the token."""
    assert authenticator.review("secret", ()) == (authenticator.token_user("secret"), tokens.audiences)
    for token, audiences in (("secret", ("vault",)), ("wrong", ())):
        with pytest.raises(TokenError, match="invalid bearer token"):
            authenticator.review(token, audiences)


async def test_no_secret_is_shown(authenticator: Authenticator, tmp_path: Path) -> None:
    """Neither the authenticator's attributes nor its errors contain one."""
    assert "secret" not in repr(vars(authenticator))
    with pytest.raises(Unauthorized) as caught:
        authenticator.authenticate(bearer("hunter2"), None)
    assert "hunter2" not in repr(caught.value)
