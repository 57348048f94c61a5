"""Computes the files of config map, secret, downward API and projected volumes.

Raises VolumeError with everything that is missing.

Upstream: pkg/volume/configmap/configmap.go, pkg/volume/secret/secret.go, pkg/volume/downwardapi/downwardapi.go,
pkg/volume/projected/projected.go
"""

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pykubelet.api.generated.core import (
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from pykubelet.api.pods import all_containers
from pykubelet.kubelet.objectcache.pod_objects import ObjectLookups, ObjectNames, found
from pykubelet.kubelet.volumemanager.downward_api import file_value, metadata_value
from pykubelet.kubelet.volumemanager.errors import VolumeError, aggregate

DEFAULT_MODE = 0o644
# Only the owner may read credentials, even if others may read the volume.
CREDENTIAL_MODE = 0o600

T = TypeVar("T")
Tokens = Mapping[ServiceAccountTokenProjection, str | Exception]


@dataclass(frozen=True, slots=True, repr=False)
class FileContent:
    """The content of a file, its mode and owner; the repr hides the content."""

    data: bytes
    mode: int = DEFAULT_MODE
    owner: int | None = None


Payload = dict[str, FileContent]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadInputs:
    """What the files of a pod's volumes are computed from, in addition to the pod."""

    lookups: ObjectLookups = field(default_factory=ObjectLookups)
    tokens: Tokens = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """The node's allocatable resources."""


@dataclass(frozen=True, slots=True)
class PayloadSources(ObjectNames):
    tokens: tuple[ServiceAccountTokenProjection, ...]


def payload_sources(volumes: Iterable[Volume]) -> PayloadSources:
    """The objects that `payload_of` needs for these volumes."""
    volumes = tuple(volumes)
    sources = [source for volume in volumes if volume.projected for source in volume.projected.sources]
    return PayloadSources(
        frozenset(volume.config_map.name for volume in volumes if volume.config_map)
        | {source.config_map.name for source in sources if source.config_map},
        frozenset(volume.secret.secret_name for volume in volumes if volume.secret)
        | {source.secret.name for source in sources if source.secret},
        tuple(source.service_account_token for source in sources if source.service_account_token),
    )


def payload_of(volume: Volume, pod: Pod, inputs: PayloadInputs) -> Payload:
    """The files of a volume; raises VolumeError if they are not available."""
    if source := volume.config_map:
        return _config_map_files(source.name, source.items, _mode(source.default_mode), inputs, bool(source.optional))
    if secret := volume.secret:
        return _secret_files(
            secret.secret_name, secret.items, _mode(secret.default_mode), inputs, bool(secret.optional)
        )
    if downward := volume.downward_api:
        return _downward_files(downward.items, _mode(downward.default_mode), pod, inputs)
    assert volume.projected is not None
    mode = _mode(volume.projected.default_mode)
    payload: Payload = {}
    problems: list[str] = []
    for projection in volume.projected.sources:
        try:
            payload |= _projected_files(projection, mode, pod, inputs)
        except VolumeError as problem:
            problems.append(str(problem))
    if problems:
        raise VolumeError(aggregate(problems))
    return payload


def fingerprint(payload: Payload) -> bytes:
    """A hash of the content; modes are ignored, as for writing."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(payload):
        name, data = path.encode(errors="surrogatepass"), payload[path].data
        digest.update(b"%d %d " % (len(name), len(data)) + name + data)
    return digest.digest()


def file_user(pod: Pod) -> int | None:
    """The user who owns a pod's credentials: the one that all its containers run as, if specified."""
    spec = pod.spec
    default = spec.security_context.run_as_user if spec.security_context else None
    contexts = [container.security_context for container in all_containers(pod)]
    users = {default if context is None or context.run_as_user is None else context.run_as_user for context in contexts}
    return users.pop() if len(users) == 1 else None


def file_group(pod: Pod) -> int | None:
    """The group of a pod's volumes (fsGroup)."""
    return pod.spec.security_context.fs_group if pod.spec.security_context else None


def _projected_files(projection: VolumeProjection, mode: int, pod: Pod, inputs: PayloadInputs) -> Payload:
    if source := projection.config_map:
        return _config_map_files(source.name, source.items, mode, inputs, bool(source.optional))
    if secret := projection.secret:
        return _secret_files(secret.name, secret.items, mode, inputs, bool(secret.optional))
    if projection.downward_api:
        return _downward_files(projection.downward_api.items, mode, pod, inputs)
    if token := projection.service_account_token:
        text = inputs.tokens[token]
        if isinstance(text, Exception):
            raise VolumeError(str(text))
        user = file_user(pod)
        is_private = user is not None or file_group(pod) is not None
        return {token.path: FileContent(text.encode(), CREDENTIAL_MODE if is_private else mode, user)}
    kind = "clusterTrustBundle" if projection.cluster_trust_bundle else "podCertificate"
    raise VolumeError(f"{kind} projections are not supported by this node")


def _config_map_files(
    name: str, items: tuple[KeyToPath, ...], mode: int, inputs: PayloadInputs, optional: bool
) -> Payload:
    config_map = _found(lambda: found(inputs.lookups.config_maps, name, optional=optional))
    texts = {key: text.encode() for key, text in config_map.data.items()} if config_map else {}
    binaries = config_map.binary_data if config_map else {}
    if not items:
        return {key: FileContent(data, mode) for key, data in {**texts, **binaries}.items()}
    missing = "configmap references non-existent config key: "
    return dict(_chosen({**binaries, **texts}, items, mode, None if optional else missing))


def _secret_files(name: str, items: tuple[KeyToPath, ...], mode: int, inputs: PayloadInputs, optional: bool) -> Payload:
    secret = _found(lambda: found(inputs.lookups.secrets, name, optional=optional))
    data = secret.data if secret else {}
    if not items:
        return {key: FileContent(value, mode) for key, value in data.items()}
    return dict(_chosen(data, items, mode, None if optional else "references non-existent secret key: "))


def _chosen(
    data: Mapping[str, bytes], items: tuple[KeyToPath, ...], mode: int, missing_message: str | None
) -> Iterator[tuple[str, FileContent]]:
    """The selected keys by path; without `missing_message`, missing keys are left out."""
    for item in items:
        if item.key in data:
            yield item.path, FileContent(data[item.key], mode if item.mode is None else item.mode)
        elif missing_message is not None:
            raise VolumeError(f"{missing_message}{item.key}")


def _downward_files(items: tuple[DownwardAPIVolumeFile, ...], mode: int, pod: Pod, inputs: PayloadInputs) -> Payload:
    payload: Payload = {}
    problems: list[str] = []
    for item in items:
        text = ""
        try:
            if item.field_ref:
                text = metadata_value(item.field_ref.field_path, pod)
            elif item.resource_field_ref:
                text = file_value(item.resource_field_ref, pod, inputs.allocatable)
        except ValueError as error:
            problems.append(str(error))
        path = posixpath.normpath(item.path)
        payload[path] = FileContent(text.encode(), mode if item.mode is None else item.mode)
    if problems:
        raise VolumeError(aggregate(problems))
    return payload


def _found(lookup: Callable[[], T | None]) -> T | None:
    """The result of a lookup; a failed lookup raises VolumeError."""
    try:
        return lookup()
    except Exception as error:
        raise VolumeError(str(error)) from error


def _mode(default: int | None) -> int:
    return DEFAULT_MODE if default is None else default
