"""Tokens: static token files, signed tokens, and service account tokens while their objects exist."""

import base64
import json
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from access_objects import CountingIds, put, remove, thing
from pykubelet.api.times import format_time
from pykubelet.apiserver.authentication.jwt import JwtError, Signer, Verifier, unverified_claims
from pykubelet.apiserver.authentication.serviceaccount import (
    ISSUER,
    BoundObject,
    Claims,
    ClaimsError,
    ServiceAccountTokens,
    TokenError,
    TokenSubject,
    make_claims,
    read_claims,
)
from pykubelet.apiserver.authentication.tokenfile import TokenFileError, digest, read_token_file
from pykubelet.apiserver.certs.certificates import new_key
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.testing.virtual_time import EPOCH, ManualClock

KEY = new_key()
RSA_KEY = rsa.generate_private_key(65537, 2048)
SUBJECT = TokenSubject(namespace="ns", account=BoundObject("bot", "bot-uid"))
POD, SECRET, NODE = BoundObject("p", "p-uid"), BoundObject("s", "s-uid"), BoundObject("n", "n-uid")


def test_token_file_gives_users() -> None:
    """Groups are optional, quotes are read as in CSV, and empty lines are skipped."""
    text = 'abc,alice,1,"g1,g2"\n\ndef,"bob ""b""",2\nghi,carol,,g3\n'
    assert read_token_file(text, "f") == {
        digest("abc"): UserInfo("alice", ("g1", "g2"), "1"),
        digest("def"): UserInfo('bob "b"', (), "2"),
        digest("ghi"): UserInfo("carol", ("g3",), ""),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc,alice\n", "f:1: a line must have at least 3 columns (token, user name, user uid), found 2"),
        ("abc,alice,1\n,bob,2\n", "f:2: the token is empty"),
        ("abc,,1\n", "f:1: the user name is empty"),
        ("a,b,1\n\nsecret,bob,2\nsecret,bob,2\n", "f:4: this token appears twice in the file"),
        ('a,b,"1\n', "f:1: unexpected end of data"),
    ],
)
def test_token_file_error_names_the_line_and_no_token(text: str, message: str) -> None:
    """The error starts with file and line."""
    with pytest.raises(TokenFileError) as caught:
        read_token_file(text, "f")
    assert str(caught.value) == message
    assert "secret" not in message


@pytest.mark.parametrize("key", [KEY, RSA_KEY], ids=["ES256", "RS256"])
def test_signed_token_is_verified_only_by_its_key(key: object) -> None:
    """The header of the token holds the key's id and algorithm."""
    assert isinstance(key, type(KEY) | type(RSA_KEY))
    token = Signer(key).sign({"sub": "x"})
    verifier = Verifier([key.public_key()])
    assert verifier.claims(token) == {"sub": "x"}
    head = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    web_key = verifier.key_set()["keys"][0]
    assert head == {"alg": web_key["alg"], "kid": web_key["kid"]}
    with pytest.raises(JwtError):
        Verifier([new_key().public_key()]).claims(token)


@settings(max_examples=150)
@given(st.integers(min_value=0), st.characters())
def test_changed_token_is_refused(position: int, char: str) -> None:
    """Only unused bits of the signature's last character may differ; the claims are then the same."""
    token = Signer(KEY).sign({"sub": "x", "aud": ["a"]})
    position %= len(token)
    changed = token[:position] + char + token[position + 1 :]
    if changed != token:
        try:
            claims = Verifier([KEY.public_key()]).claims(changed)
        except JwtError:
            return
        # The last character of a signature has unused bits.
        assert position == len(token) - 1
        assert claims == {"sub": "x", "aud": ["a"]}


@given(st.text())
def test_text_that_is_no_token_is_refused(text: str) -> None:
    """The verifier raises JwtError."""
    assert unverified_claims(text) is None or isinstance(unverified_claims(text), dict)
    with pytest.raises(JwtError):
        Verifier([KEY.public_key()]).claims(text)


@pytest.mark.parametrize("head", [{"alg": "none"}, {"alg": "HS256"}, {"alg": "RS256"}, {}, []])
def test_algorithm_in_the_header_is_not_trusted(head: object) -> None:
    """Known attacks use no signature, or an HMAC with the public key as the secret."""
    _, body, signature = Signer(KEY).sign({"sub": "x"}).split(".")
    forged = base64.urlsafe_b64encode(json.dumps(head).encode()).rstrip(b"=").decode()
    for token in (f"{forged}.{body}.", f"{forged}.{body}.{signature}"):
        with pytest.raises(JwtError):
            Verifier([KEY.public_key()]).claims(token)


NAMES = st.builds(BoundObject, st.sampled_from("ab"), st.sampled_from("uv"))


@given(st.none() | NAMES, st.none() | NAMES, st.none() | NAMES, st.integers(600, 2**32), st.integers(0, 9))
def test_claims_are_the_same_after_writing_and_reading(
    pod: BoundObject | None, secret: BoundObject | None, node: BoundObject | None, seconds: int, warn: int
) -> None:
    """A token keeps all claims."""
    subject = TokenSubject(namespace="ns", account=BoundObject("bot", "u"), pod=pod, secret=secret, node=node)
    claims = make_claims(
        subject, issuer="i", audiences=("a",), token_id="t", now=EPOCH, seconds=seconds, warn_after_seconds=warn
    )
    assert read_claims(json.loads(json.dumps(claims.document)), EPOCH) == claims


def claims_for(**times: object) -> dict[str, object]:
    claims = Claims(subject=SUBJECT, issuer="i", audiences=("a",), token_id="t", issued_at=0, expires_at=0)
    return claims.document | times


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"exp": EPOCH.timestamp() - 61}, "service account token has expired"),
        ({"exp": None}, "service account token has expired"),
        ({"exp": 1e400}, "service account token has expired"),
        ({"exp": 2**40, "nbf": EPOCH.timestamp() + 61}, "service account token is not valid yet"),
        ({"exp": 2**40, "iat": EPOCH.timestamp() + 61}, "service account token is issued in the future"),
        ({"exp": 2**40, "kubernetes.io": []}, "service account token names no service account"),
    ],
)
def test_claims_out_of_their_time_are_refused(times: dict[str, object], message: str) -> None:
    """Clocks may differ by up to a minute."""
    with pytest.raises(ClaimsError, match=message):
        read_claims(claims_for(**times), EPOCH)


def test_claims_are_those_of_upstream() -> None:
    """Names and places of each claim, for a token bound to a pod on a node."""
    subject = TokenSubject(namespace="ns", account=BoundObject("bot", "bot-uid"), pod=POD, node=NODE)
    claims = make_claims(
        subject, issuer=ISSUER, audiences=[ISSUER], token_id="jti", now=EPOCH, seconds=100, warn_after_seconds=10
    )
    now = int(EPOCH.timestamp())
    assert claims.document == {
        "aud": [ISSUER],
        "exp": now + 100,
        "iat": now,
        "iss": ISSUER,
        "jti": "jti",
        "kubernetes.io": {
            "namespace": "ns",
            "node": {"name": "n", "uid": "n-uid"},
            "pod": {"name": "p", "uid": "p-uid"},
            "serviceaccount": {"name": "bot", "uid": "bot-uid"},
            "warnafter": now + 10,
        },
        "nbf": now,
        "sub": "system:serviceaccount:ns:bot",
    }


def service(store: DurableStore, clock: ManualClock) -> ServiceAccountTokens:
    return ServiceAccountTokens(KEY, store.get, clock=clock, ids=CountingIds())


async def fill(store: DurableStore) -> None:
    await put(store, "serviceaccounts", thing("ServiceAccount", "bot", "ns"))
    await put(store, "pods", thing("Pod", "p", "ns"))
    await put(store, "secrets", thing("Secret", "s", "ns"))
    await put(store, "nodes", thing("Node", "n"))


async def test_token_authenticates_as_its_account(store: DurableStore) -> None:
    """The user's extra fields name the pod and node that the token is bound to, as upstream's do."""
    await fill(store)
    tokens = service(store, ManualClock())
    bound = TokenSubject(namespace="ns", account=SUBJECT.account, pod=POD, node=NODE)
    bearer = tokens.bearer(tokens.issue(bound, audiences=tokens.audiences, seconds=600))
    assert bearer is not None
    prefix = "authentication.kubernetes.io"
    assert bearer.user == UserInfo(
        "system:serviceaccount:ns:bot",
        ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        "bot-uid",
        {
            f"{prefix}/pod-name": ("p",),
            f"{prefix}/pod-uid": ("p-uid",),
            f"{prefix}/credential-id": ("JTI=uid-1",),
            f"{prefix}/node-name": ("n",),
            f"{prefix}/node-uid": ("n-uid",),
        },
    )


@pytest.mark.parametrize(
    ("subject", "collection", "name", "message"),
    [
        (SUBJECT, "serviceaccounts", "bot", 'serviceaccounts "bot" not found'),
        (TokenSubject(namespace="ns", account=SUBJECT.account, pod=POD), "pods", "p", "token has been invalidated"),
        (
            TokenSubject(namespace="ns", account=SUBJECT.account, secret=SECRET),
            "secrets",
            "s",
            "token has been invalidated",
        ),
        (TokenSubject(namespace="ns", account=SUBJECT.account, node=NODE), "nodes", "n", "token has been invalidated"),
    ],
    ids=["account", "pod", "secret", "node"],
)
async def test_token_dies_with_what_it_is_bound_to(
    store: DurableStore, subject: TokenSubject, collection: str, name: str, message: str
) -> None:
    """This holds although an earlier request passed; a new object of the same name has another UID."""
    await fill(store)
    tokens = service(store, ManualClock())
    token = tokens.issue(subject, audiences=tokens.audiences, seconds=600)
    assert tokens.bearer(token) is not None
    namespace = "" if collection == "nodes" else "ns"
    await remove(store, collection, namespace, name)
    with pytest.raises(TokenError, match=message):
        tokens.bearer(token)
    again = thing(collection[:-1].title(), name, namespace, metadata={"uid": "another"})
    await put(store, collection, again)
    with pytest.raises(TokenError, match=r"UID \(another\) does not match"):
        tokens.bearer(token)


async def test_token_expires_and_ends_with_its_deleted_pod(store: DurableStore) -> None:
    """Both have a minute of leeway, and a token that passed before is checked again."""
    await fill(store)
    clock = ManualClock()
    tokens = service(store, clock)
    bound = TokenSubject(namespace="ns", account=SUBJECT.account, pod=POD)
    short = tokens.issue(SUBJECT, audiences=tokens.audiences, seconds=600)
    long = tokens.issue(bound, audiences=tokens.audiences, seconds=10_000)
    deletion = {"deletionTimestamp": format_time(EPOCH + timedelta(seconds=300))}
    await put(store, "pods", thing("Pod", "p", "ns", metadata=deletion))
    clock.advance(355)
    assert tokens.bearer(short) is not None
    assert tokens.bearer(long) is not None
    clock.advance(10)
    assert tokens.bearer(short) is not None
    with pytest.raises(TokenError, match="invalidated"):
        tokens.bearer(long)
    clock.advance(300)
    with pytest.raises(TokenError, match="expired"):
        tokens.bearer(short)


async def test_token_is_for_its_audiences_only(store: DurableStore) -> None:
    """This server accepts a token only if it is one of the audiences."""
    await fill(store)
    tokens = service(store, ManualClock())
    token = tokens.issue(SUBJECT, audiences=["vault", "other"], seconds=600)
    bearer = tokens.bearer(token, ["vault", "x"])
    assert bearer is not None
    assert bearer.audiences == ("vault",)
    text = f'token audiences ["vault" "other"] is invalid for the target audiences ["{ISSUER}"]'
    with pytest.raises(TokenError) as caught:
        tokens.bearer(token)
    assert str(caught.value) == text


async def test_token_of_another_issuer_is_left_undecided(store: DurableStore) -> None:
    """A token that names this issuer but has another key's signature is an error."""
    await fill(store)
    tokens = service(store, ManualClock())
    assert tokens.bearer("abc") is None
    assert tokens.bearer(Signer(new_key()).sign({"iss": "https://other"})) is None
    forged = ServiceAccountTokens(new_key(), store.get, clock=ManualClock(), ids=CountingIds())
    with pytest.raises(TokenError, match="invalid signature"):
        tokens.bearer(forged.issue(SUBJECT, audiences=tokens.audiences, seconds=600))


async def test_discovery_lets_others_verify_tokens(store: DurableStore) -> None:
    """The server publishes the documents of OpenID Connect."""
    tokens = service(store, ManualClock())
    assert json.loads(tokens.discovery("https://host:1/")) == {
        "issuer": ISSUER,
        "jwks_uri": "https://host:1/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    (key,) = json.loads(tokens.key_set())["keys"]
    assert {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig"}.items() <= key.items()
