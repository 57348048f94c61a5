"""PodControl: how controllers create, delete and patch pods on behalf of an owner.

Each creation and deletion is recorded as an Event on the owner. `slow_start_batch` creates pods in growing batches so
that a quota or a broken webhook is hit once, not five hundred times. `template_hash` hashes the JSON text with sorted
keys; upstream hashes the Go object, so its hashes change with its types. `create_pods_on_node` and
`create_pods_with_controller_ref` exist in the mission's documents only.

Upstream: pkg/controller/controller_utils.go, pkg/controller/replicaset/replica_set.go,
staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from pykubelet.aio.log import get_logger
from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Pod, PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.api.scheme import PODS, ApiObject
from pykubelet.client.interface import PatchType, Writer
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to

log = get_logger(__name__)
FAILED_CREATE = "FailedCreate"
SUCCESSFUL_CREATE = "SuccessfulCreate"
FAILED_DELETE = "FailedDelete"
SUCCESSFUL_DELETE = "SuccessfulDelete"
NAMESPACE_TERMINATING = "NamespaceTerminating"
# No vowels and no look-alikes, so that a hash never spells a word.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


class PodControlInterface(Protocol):
    """What controllers use of PodControl; FakePodControl implements it for tests."""

    async def create_pods(
        self,
        namespace: str,
        template: PodTemplateSpec,
        owner: ApiObject,
        controller_ref: OwnerReference | None,
        *,
        generate_name: str = "",
    ) -> Pod:
        """Creates one pod from a template, controlled by `owner`; its name starts with the owner's by default."""

    async def delete_pod(self, namespace: str, name: str, owner: ApiObject) -> None:
        """Deletes a pod with its own grace period; NotFound if there is none."""

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        """Applies a strategic merge patch to a pod."""


class AggregateError(Exception):
    """Several errors; each message appears once, in brackets if there are several (upstream: Aggregate)."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = tuple(errors)
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


class DeleteFailedError(Exception):
    """The API server did not delete a pod; its error is the cause."""


class PodControl:
    """Creates, deletes and patches pods for controllers. Safe for concurrent calls."""

    def __init__(self, *, client: Writer, recorder: EventRecorder) -> None:
        self._client, self._recorder = client, recorder

    async def create_pods(
        self,
        namespace: str,
        template: PodTemplateSpec,
        owner: ApiObject,
        controller_ref: OwnerReference | None,
        *,
        generate_name: str = "",
    ) -> Pod:
        """Creates one pod from a template, controlled by `owner`.

        Raises ValueError before any request if the reference is not a controller reference or the template has no
        labels. An API error is recorded as an Event on the owner (unless the namespace is terminating) and raised
        unchanged.
        """
        validate_controller_ref(controller_ref)
        pod = pod_from_template(template, owner.metadata.name, controller_ref)
        if generate_name:
            metadata = msgspec.structs.replace(pod.metadata, generate_name=generate_name)
            pod = msgspec.structs.replace(pod, metadata=metadata)
        return await self._create(namespace, pod, owner)

    create_pods_with_controller_ref = create_pods
    """`create_pods` has required the reference since upstream merged the two."""

    async def create_pods_on_node(
        self,
        node_name: str,
        namespace: str,
        template: PodTemplateSpec,
        owner: ApiObject,
        controller_ref: OwnerReference | None,
    ) -> Pod:
        """Creates one pod already bound to a node, bypassing the scheduler; otherwise as `create_pods`."""
        validate_controller_ref(controller_ref)
        pod = pod_from_template(template, owner.metadata.name, controller_ref)
        spec = msgspec.structs.replace(pod.spec, node_name=node_name)
        return await self._create(namespace, msgspec.structs.replace(pod, spec=spec), owner)

    async def delete_pod(self, namespace: str, name: str, owner: ApiObject) -> None:
        """Deletes a pod with its own grace period.

        NotFound is raised unchanged and records no Event; any other failure is recorded as an Event on the owner and
        raised as DeleteFailedError.
        """
        try:
            await self._client.delete(PODS, name, namespace=namespace)
        except NotFound:
            log.debug("pod is deleted already", pod=f"{namespace}/{name}", owner=owner.metadata.name)
            raise
        except ApiError as error:
            self._record_event(owner, WARNING, FAILED_DELETE, f"Error deleting: {error}")
            raise DeleteFailedError(f"unable to delete pods: {error}") from error
        self._record_event(owner, NORMAL, SUCCESSFUL_DELETE, f"Deleted pod: {name}")

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        """Applies a strategic merge patch to a pod; records no Event."""
        await self._client.patch(PODS, name, patch, namespace=namespace, patch_type=PatchType.STRATEGIC)

    async def _create(self, namespace: str, pod: Pod, owner: ApiObject) -> Pod:
        if not pod.metadata.labels:
            raise ValueError("unable to create pods, no labels")
        try:
            created = await self._client.create(PODS, pod, namespace=namespace)
        except ApiError as error:
            if not error.has_cause(NAMESPACE_TERMINATING):
                self._record_event(owner, WARNING, FAILED_CREATE, f"Error creating: {error}")
            raise
        self._record_event(owner, NORMAL, SUCCESSFUL_CREATE, f"Created pod: {created.metadata.name}")
        return created

    def _record_event(self, owner: ApiObject, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(reference_to(owner), event_type, reason, message)


@contextmanager
def terminating_namespace_ignored() -> Iterator[None]:
    """Suppresses the error of a terminating namespace: nothing can be created there, and nothing needs to be."""
    try:
        yield
    except ApiError as error:
        if not error.has_cause(NAMESPACE_TERMINATING):
            raise


async def attempt_all(calls: Iterable[Coroutine[Any, Any, None]]) -> list[Exception | None]:
    """Awaits all calls concurrently; returns the error of each, or None, in order."""
    outcomes: list[Exception | None] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if outcome is not None and not isinstance(outcome, Exception):
            raise outcome
        outcomes.append(outcome)
    return outcomes


def validate_controller_ref(reference: OwnerReference | None) -> None:
    """Raises ValueError unless the reference makes its owner the controller."""
    if reference is None:
        raise ValueError("controllerRef is nil")
    if not reference.api_version:
        raise ValueError("controllerRef has empty APIVersion")
    if not reference.kind:
        raise ValueError("controllerRef has empty Kind")
    if not reference.controller:
        raise ValueError("controllerRef.Controller is not set to true")
    if not reference.block_owner_deletion:
        raise ValueError("controllerRef.BlockOwnerDeletion is not set")


def pods_prefix(owner_name: str) -> str:
    """The generateName prefix of an owner's pods: its name and a dash, without the dash if that would be invalid."""
    # The server appends to the prefix, so a trailing dash is allowed here.
    name = f"{owner_name}-"
    masked = f"{name[:-2]}a" if len(name) > 1 else name
    return owner_name if dns1123_subdomain_errors(masked) else name


def pod_from_template(template: PodTemplateSpec, owner_name: str, controller_ref: OwnerReference | None) -> Pod:
    """The pod a template describes; it takes labels, annotations, finalizers and spec, and no name."""
    metadata = ObjectMeta(
        generate_name=pods_prefix(owner_name),
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        finalizers=template.metadata.finalizers,
        owner_references=(controller_ref,) if controller_ref is not None else (),
    )
    return Pod(metadata=metadata, spec=template.spec)


async def slow_start_batch(
    count: int, call: Callable[[], Awaitable[None]], *, first_batch: int = 1
) -> tuple[int, Exception | None]:
    """Calls `call` up to `count` times, in batches of 1, 2, 4, 8 ... until a batch fails.

    Returns the number of successes and one of the errors.
    """
    left, successes = count, 0
    size = min(left, first_batch)
    while size > 0:
        results = await asyncio.gather(*(call() for _ in range(size)), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        successes += size - len(errors)
        for error in errors:
            if not isinstance(error, Exception):
                raise error
        if errors:
            return successes, next(error for error in errors if isinstance(error, Exception))
        left -= size
        size = min(2 * size, left)
    return successes, None


def template_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """The hash of a pod template; `collision_count` changes it when two templates collide."""
    text = json.dumps(serializer.to_document(template), sort_keys=True, separators=(",", ":")).encode()
    if collision_count is not None:
        text += collision_count.to_bytes(8, "little")
    value = _FNV_OFFSET
    for byte in text:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return safe_encode(value)


def safe_encode(value: int) -> str:
    """Encodes a number in characters that are safe in names."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
