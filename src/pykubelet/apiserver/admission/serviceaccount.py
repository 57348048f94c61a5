"""ServiceAccount admission: sets a pod's account, mounts its token, adds its pull secrets.

Optional: a machine whose pods do not use the API needs no service accounts.

Upstream: plugin/pkg/admission/serviceaccount/admission.go
"""

from collections.abc import Callable, Iterator

from pykubelet.aio.ids import Ids
from pykubelet.api.errors import Forbidden
from pykubelet.api.field_errors import go_quote
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.authentication.serviceaccount import WARN_ONLY_SECONDS
from pykubelet.apiserver.authorization.node import MIRROR_ANNOTATION
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.pod.visitors import secret_names

_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
# The texts that Go parses as true.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_SOURCES = (
    {"serviceAccountToken": {"expirationSeconds": WARN_ONLY_SECONDS, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
)


class ServiceAccountAdmission:
    """Sets a pod's service account, token volume and pull secrets. `newest` returns the newest entry of a key."""

    resources = frozenset({PODS.group_resource})

    def __init__(
        self, newest: Callable[[StoreKey], StoreEntry | None], ids: Ids, *, trusts_mirror_pods: bool = False
    ) -> None:
        """With `trusts_mirror_pods` they may refer to API objects: the static pods of `up` may use them."""
        self._newest, self._ids, self._trusts_mirror_pods = newest, ids, trusts_mirror_pods

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:  # noqa: ARG002  the Protocol's
        """Returns the pod with its account; Forbidden if the account does not exist or may not use a secret."""
        if new is None:
            return new
        match attributes.verb, attributes.subresource:
            case "create", "":
                if MIRROR_ANNOTATION in (new["metadata"].get("annotations") or {}):
                    if not self._trusts_mirror_pods:
                        _check_mirror(attributes, new)
                    return new
                return self._with_account(attributes, new)
            case "update", "ephemeralcontainers":
                self._check_ephemeral(attributes, new)
        return new

    def _with_account(self, attributes: AdmissionAttributes, pod: Document) -> Document:
        name = pod["spec"].get("serviceAccountName") or "default"
        account = self._account(attributes, pod, name)
        spec = pod["spec"] | {"serviceAccountName": name, "serviceAccount": name}
        automount = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken"))
        if automount is None or automount:
            spec = _with_token(spec, self._ids)
        pull_secrets = [{"name": secret.get("name", "")} for secret in account.get("imagePullSecrets") or ()]
        if pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = pull_secrets
        if _enforces(account) and (why := next(_unreferenced(account, spec), None)):
            raise _forbidden(attributes, pod, why)
        return pod | {"spec": spec}

    def _check_ephemeral(self, attributes: AdmissionAttributes, pod: Document) -> None:
        name = pod["spec"].get("serviceAccountName", "")
        if not name:
            why = f"no service account specified for pod {attributes.namespace}/{pod['metadata'].get('name', '')}"
            raise _forbidden(attributes, pod, why)
        account = self._account(attributes, pod, name)
        found = _unreferenced_by(account, pod["spec"], "ephemeralContainers", "ephemeral container")
        if _enforces(account) and (problem := next(found, None)):
            raise _forbidden(attributes, pod, problem)

    def _account(self, attributes: AdmissionAttributes, pod: Document, name: str) -> Document:
        entry = self._newest(StoreKey("serviceaccounts", attributes.namespace, name))
        if entry is None:
            place = f"{attributes.namespace}/{name}"
            why = f"error looking up service account {place}: serviceaccount {go_quote(name)} not found"
            raise _forbidden(attributes, pod, why)
        return entry.document


def _check_mirror(attributes: AdmissionAttributes, pod: Document) -> None:
    """Rejects a mirror pod that references API objects; it is not changed otherwise."""
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise _forbidden(attributes, pod, "a mirror pod may not reference service accounts")
    if any(secret_names(spec)):
        raise _forbidden(attributes, pod, "a mirror pod may not reference secrets")
    for volume in spec.get("volumes", ()):
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                raise _forbidden(attributes, pod, "a mirror pod may not use ServiceAccountToken volume projections")


def _with_token(spec: Document, ids: Ids) -> Document:
    """Mounts the token in each container that has no mount at its path."""
    volumes = spec.get("volumes") or []
    present = next((name for volume in volumes if (name := volume.get("name", "")).startswith(_VOLUME_PREFIX)), None)
    name = present or f"{_VOLUME_PREFIX}{ids.suffix()}"
    mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
    changed: Document = {}
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind) or []
        mounted = [_mounted(container, mount) for container in containers]
        if mounted != containers:
            changed[kind] = mounted
    if changed and present is None:
        changed["volumes"] = [*volumes, {"name": name, "projected": {"sources": list(_SOURCES), "defaultMode": 0o644}}]
    return spec | changed


def _mounted(container: Document, mount: Document) -> Document:
    mounts = container.get("volumeMounts") or []
    if any(one.get("mountPath") == _MOUNT_PATH for one in mounts):
        return container
    return container | {"volumeMounts": [*mounts, mount]}


def _enforces(account: Document) -> bool:
    return (account["metadata"].get("annotations") or {}).get(_ENFORCE) in _TRUE


def _unreferenced(account: Document, spec: Document) -> Iterator[str]:
    """Why a pod may not use the secrets it references: the account does not list them."""
    name, allowed = account["metadata"]["name"], _secrets(account)
    for volume in spec.get("volumes") or ():
        secret = (volume.get("secret") or {}).get("secretName", "")
        if volume.get("secret") is not None and secret not in allowed:
            yield f'volume with secret.secretName="{secret}" {_not_of(name)}'
    yield from _unreferenced_by(account, spec, "initContainers", "init container")
    yield from _unreferenced_by(account, spec, "containers", "container")
    pulls = {secret.get("name", "") for secret in account.get("imagePullSecrets") or ()}
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if secret.get("name", "") not in pulls:
            why = f"is not allowed because service account {name} does not reference that imagePullSecret"
            yield f'imagePullSecrets[{index}].name="{secret.get("name", "")}" {why}'


def _unreferenced_by(account: Document, spec: Document, kind: str, title: str) -> Iterator[str]:
    why, allowed = _not_of(account["metadata"]["name"]), _secrets(account)
    for container in spec.get(kind) or ():
        place = f"{title} {container.get('name', '')}"
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None and (secret := reference.get("name", "")) not in allowed:
                yield f'{place} with envVar {variable.get("name", "")} referencing secret.secretName="{secret}" {why}'
        for source in container.get("envFrom") or ():
            reference = source.get("secretRef")
            if reference is not None and (secret := reference.get("name", "")) not in allowed:
                yield f'{place} with envFrom referencing secret.secretName="{secret}" {why}'


def _secrets(account: Document) -> set[str]:
    return {secret.get("name", "") for secret in account.get("secrets") or ()}


def _not_of(account: str) -> str:
    return f"is not allowed because service account {account} does not reference that secret"


def _forbidden(attributes: AdmissionAttributes, pod: Document, why: str) -> Forbidden:
    metadata = pod["metadata"]
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    return forbidden(attributes.served.resource, name, why)
