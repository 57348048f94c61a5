"""ServiceAccount admission of pods: the token's volume, pull secrets, and the pods that are refused."""

from typing import Any

import pytest

from access_objects import ALICE, CountingIds, pod, put, request, thing
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.serviceaccount import ServiceAccountAdmission
from pykubelet.apiserver.storage.durable_store import DurableStore

CREATE = request(ALICE, "create", "pods", "p")
PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
MOUNT = {"name": "kube-api-access-abcde", "readOnly": True, "mountPath": PATH}
STRICT = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
VOLUME = {
    "name": "kube-api-access-abcde",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
    },
}


@pytest.fixture
async def rule(store: DurableStore) -> ServiceAccountAdmission:
    accounts: dict[str, dict[str, Any]] = {
        "default": {"imagePullSecrets": [{"name": "pull"}]},
        "quiet": {"automountServiceAccountToken": False},
        "strict": {"metadata": STRICT, "secrets": [{"name": "known"}], "imagePullSecrets": [{"name": "pull"}]},
    }
    for name, fields in accounts.items():
        await put(store, "serviceaccounts", thing("ServiceAccount", name, "ns", **fields))
    return ServiceAccountAdmission(store.newest, CountingIds())


def admitted(rule: ServiceAccountAdmission, new: Document) -> Document:
    found = rule.admit(CREATE, new, None)
    assert found is not None
    spec: Document = found["spec"]
    return spec


async def test_pod_gets_the_default_account_with_its_token(rule: ServiceAccountAdmission) -> None:
    """Admission adds volume, mounts and pull secrets as upstream does, and leaves the given pod unchanged."""
    init = [{"name": "i", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]
    new = pod("p", initContainers=init, volumes=[{"name": "x", "emptyDir": {}}])
    spec = admitted(rule, new)
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert spec["volumes"] == [{"name": "x", "emptyDir": {}}, VOLUME]
    assert spec["containers"][0]["volumeMounts"] == [MOUNT]
    assert spec["initContainers"][0]["volumeMounts"] == [{"name": "x", "mountPath": "/x"}, MOUNT]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert new == pod("p", initContainers=init, volumes=[{"name": "x", "emptyDir": {}}])


@pytest.mark.parametrize(
    ("fields", "mounted"),
    [
        ({"automountServiceAccountToken": False}, False),
        ({"serviceAccountName": "quiet"}, False),
        ({"serviceAccountName": "quiet", "automountServiceAccountToken": True}, True),
        ({"containers": [{"name": "c", "volumeMounts": [{"name": "own", "mountPath": PATH}]}]}, False),
    ],
    ids=["pod says no", "account says no", "pod's word wins", "own mount"],
)
async def test_token_volume_follows_automount_setting(
    rule: ServiceAccountAdmission, fields: dict[str, Any], *, mounted: bool
) -> None:
    """A container with its own mount at that path gets no token volume."""
    assert ("volumes" in admitted(rule, pod("p", **fields))) is mounted


async def test_existing_access_volume_is_used(rule: ServiceAccountAdmission) -> None:
    """This happens when a pod is created from another pod's manifest."""
    volume = {"name": "kube-api-access-old", "emptyDir": {}}
    spec = admitted(rule, pod("p", volumes=[volume], imagePullSecrets=[{"name": "mine"}]))
    assert spec["volumes"] == [volume]
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-old"
    assert spec["imagePullSecrets"] == [{"name": "mine"}]


def strict(**spec: Any) -> Document:
    return pod("p", serviceAccountName="strict", **spec)


def with_env(kind: str, title: str) -> tuple[Document, str]:
    env = [{"name": "e", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    why = f'{title} c with envVar e referencing secret.secretName="s" {NOT_KNOWN}'
    return strict(**{kind: [{"name": "c", "env": env}]}), why


NOT_KNOWN = "is not allowed because service account strict does not reference that secret"
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (
            pod("p", serviceAccountName="gone"),
            'error looking up service account ns/gone: serviceaccount "gone" not found',
        ),
        (pod("p", metadata=MIRROR, serviceAccountName="x"), "a mirror pod may not reference service accounts"),
        (pod("p", metadata=MIRROR, imagePullSecrets=[{"name": "x"}]), "a mirror pod may not reference secrets"),
        (
            pod("p", metadata=MIRROR, volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]),
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
        (
            strict(volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
            f'volume with secret.secretName="s" {NOT_KNOWN}',
        ),
        with_env("containers", "container"),
        with_env("initContainers", "init container"),
        (
            strict(containers=[{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]),
            f'container c with envFrom referencing secret.secretName="s" {NOT_KNOWN}',
        ),
        (
            strict(imagePullSecrets=[{"name": "s"}]),
            (
                'imagePullSecrets[0].name="s" is not allowed because service account strict does not reference that '
                "imagePullSecret"
            ),
        ),
    ],
    ids=range(9),
)
async def test_pod_is_refused(rule: ServiceAccountAdmission, new: Document, why: str) -> None:
    """The error is 403 with upstream's message."""
    with pytest.raises(ApiError) as caught:
        rule.admit(CREATE, new, None)
    assert (caught.value.code, caught.value.message) == (403, f'pods "p" is forbidden: {why}')


async def test_mirror_pod_and_others_stay_as_they_are(rule: ServiceAccountAdmission) -> None:
    """Updates, other kinds and deletions pass too, and a pod may use secrets that its account lists."""
    mirror = pod("p", metadata=MIRROR)
    assert rule.admit(CREATE, mirror, None) is mirror
    assert rule.admit(request(ALICE, "update", "pods", "p"), mirror, mirror) is mirror
    assert rule.admit(request(ALICE, "create", "nodes", "n"), mirror, None) is mirror
    assert rule.admit(request(ALICE, "delete", "pods", "p"), None, mirror) is None
    known = strict(volumes=[{"name": "v", "secret": {"secretName": "known"}}])
    assert admitted(rule, known)["serviceAccountName"] == "strict"


async def test_ephemeral_containers_use_only_the_accounts_secrets(rule: ServiceAccountAdmission) -> None:
    """The check runs when they are added to a running pod."""
    asked = request(ALICE, "update", "pods/ephemeralcontainers", "p")
    fine = strict(ephemeralContainers=[{"name": "c", "envFrom": [{"secretRef": {"name": "known"}}]}])
    assert rule.admit(asked, fine, strict()) is fine
    new, why = with_env("ephemeralContainers", "ephemeral container")
    with pytest.raises(ApiError) as caught:
        rule.admit(asked, new, strict())
    assert caught.value.message == f'pods "p" is forbidden: {why}'
    with pytest.raises(ApiError, match="no service account specified for pod ns/p"):
        rule.admit(asked, pod("p"), pod("p"))
