"""StatefulPodControl: creates, corrects and deletes the pods of StatefulSets and their claims.

Each request is recorded as an event on the set.

Upstream: pkg/controller/statefulset/stateful_pod_control.go
"""

from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.generated.apps import StatefulSet
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PODS
from pykubelet.api.serializer import to_document
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING, AggregateError
from pykubelet.controllers.statefulset.identity import claims_of, correction, has_other_manager, owners_to_set
from pykubelet.controllers.statefulset.stateful_set_control import PodAction, PodStep


class VolumeClaimError(Exception):
    """A pod cannot have a claim it needs; the message says why."""


class StatefulPodControl:
    """Carries out the steps of a plan."""

    def __init__(self, *, client: Client, recorder: EventRecorder, claims: ObjectIndex[PersistentVolumeClaim]) -> None:
        self._client, self._recorder, self._claims = client, recorder, claims

    async def take(self, stateful_set: StatefulSet, step: PodStep) -> None:
        """Carries out one step, which may have been done already; raises ApiError or AggregateError if it fails."""
        pod = step.pod
        match step.action:
            case PodAction.CREATE:
                await self._with_event("create", stateful_set, pod, self._create(stateful_set, pod))
            case PodAction.DELETE:
                await self._with_event("delete", stateful_set, pod, self._delete(pod))
            case PodAction.CORRECT:
                await self._with_event("update", stateful_set, pod, self._correct(stateful_set, pod))

    async def _create(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        await self._provide_claims(stateful_set, pod)
        await self._client.create(PODS, pod, namespace=pod.metadata.namespace)
        return True

    async def _delete(self, pod: Pod) -> bool:
        # The UID precondition protects a newer pod of the same name.
        options = DeleteOptions(preconditions=Preconditions(uid=pod.metadata.uid))
        try:
            await self._client.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, options=options)
        except NotFound:
            return False
        return True

    async def _correct(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        patch = correction(stateful_set, pod)
        await self._provide_claims(stateful_set, pod)
        if patch is not None:
            meta = pod.metadata
            body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta.uid}}
            await self._client.patch(PODS, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE)
        return patch is not None

    async def _provide_claims(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Creates missing claims of a pod and sets their owners; AggregateError if some of it fails."""
        errors: list[Exception] = []
        for wanted in claims_of(stateful_set, pod):
            found = self._claims.get(key_of(wanted))
            try:
                if found is None:
                    await self._create_claim(stateful_set, pod, wanted)
                else:
                    await self._set_owners(stateful_set, pod, found)
            except VolumeClaimError as error:
                errors.append(error)
        if errors:
            raise AggregateError(errors)

    async def _create_claim(self, stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> None:
        owners = owners_to_set(stateful_set, claim, pod) or ()
        name, where = claim.metadata.name, f"in StatefulSet {stateful_set.metadata.name}"
        owned = replace(claim, metadata=replace(claim.metadata, owner_references=owners))
        reference = reference_to(stateful_set)
        try:
            await self._client.create(PERSISTENT_VOLUME_CLAIMS, owned, namespace=claim.metadata.namespace)
        except AlreadyExists:
            # Created by an earlier attempt and not seen yet.
            return
        except ApiError as error:
            if error.has_cause(NAMESPACE_TERMINATING):
                raise
            text = f"create Claim {name} for Pod {pod.metadata.name} {where} failed error: {error}"
            self._recorder.event(reference, WARNING, "FailedCreate", text)
            raise VolumeClaimError(f"failed to create PVC {name}: {error}") from error
        text = f"create Claim {name} Pod {pod.metadata.name} {where} success"
        self._recorder.event(reference, NORMAL, "SuccessfulCreate", text)

    async def _set_owners(self, stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> None:
        owners, meta = owners_to_set(stateful_set, claim, pod), claim.metadata
        if meta.deletion_timestamp is not None:
            raise VolumeClaimError(f"pvc {meta.name} is being deleted")
        if has_other_manager(stateful_set, claim, pod):
            conflict = f"PersistentVolumeClaim {meta.name} has a conflicting OwnerReference"
            text = f"{conflict} that acts as a manging controller, the retention policy is ignored for this claim"
            self._recorder.event(reference_to(stateful_set), WARNING, "ConflictingController", text)
        if owners is None:
            return
        # The whole list is written, so the resource version must not have changed.
        lock = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": {**lock, "ownerReferences": [to_document(owner) for owner in owners]}}
        try:
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE
            )
        except ApiError as error:
            raise VolumeClaimError(
                f"could not update claim {meta.name} for delete policy ownerRefs: {error}"
            ) from error

    async def _with_event(
        self, verb: str, stateful_set: StatefulSet, pod: Pod, request: Coroutine[Any, Any, bool]
    ) -> None:
        """Awaits a request and records its result as an event, unless nothing was changed."""
        reference = reference_to(stateful_set)
        text = f"{verb} Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name}"
        try:
            is_changed = await request
        except AlreadyExists:
            raise
        except (ApiError, AggregateError) as error:
            # In a terminating namespace nothing can be created, and nothing needs to be.
            if isinstance(error, ApiError) and error.has_cause(NAMESPACE_TERMINATING):
                return
            self._recorder.event(reference, WARNING, f"Failed{verb.title()}", f"{text} failed error: {error}")
            raise
        if is_changed:
            self._recorder.event(reference, NORMAL, f"Successful{verb.title()}", f"{text} successful")
