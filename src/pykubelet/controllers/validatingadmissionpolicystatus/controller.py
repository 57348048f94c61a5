"""The ValidatingAdmissionPolicy status controller: checks the types of each generation once.

Upstream: pkg/controller/validatingadmissionpolicystatus/controller.go
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from pykubelet.api.cel.openapi import Schema
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.admissionregistration import ValidatingAdmissionPolicy
from pykubelet.api.schema import VALIDATING_ADMISSION_POLICIES as RESOURCE
from pykubelet.api.scheme import VALIDATING_ADMISSION_POLICIES
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import ControllerClient
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.validatingadmissionpolicystatus.type_checker import (
    ExpressionProblem,
    expression_warnings,
    kinds_to_check,
    param_kind,
)

NAME = "validatingadmissionpolicy-status"
_STATUS = replace(RESOURCE, subresource="status")
_READABLE = frozenset({"get"})


class PolicyStatusController(KeyedController):
    """Syncs policies by key; `sync` writes the status of a generation that has none."""

    def __init__(self, *, client: ControllerClient, policies: ObjectIndex[ValidatingAdmissionPolicy]) -> None:
        self._client, self._policies = client, policies
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(VALIDATING_ADMISSION_POLICIES, changed=self.policy_changed)

    def policy_changed(self, policy: ValidatingAdmissionPolicy) -> None:
        if policy.metadata.generation > policy.status.observed_generation:
            self.queue.add(key_of(policy))

    async def sync(self, key: str) -> None:
        """Checks the policy and applies its status. Raises what went wrong."""
        policy = self._policies.get(key)
        if policy is None or policy.metadata.generation <= policy.status.observed_generation:
            return
        found = await self._check(policy)
        with suppress(NotFound):
            await self._client.apply(_STATUS, _with_status(policy, found), field_manager=NAME)

    async def _check(self, policy: ValidatingAdmissionPolicy) -> list[ExpressionProblem]:
        kinds = kinds_to_check(policy.spec, (await self._client.discover(_READABLE)).resources)
        params = param_kind(policy.spec)
        schemas: dict[str, dict[str, Schema]] = {}
        for version in {kind.api_version for kind in (*kinds, *(() if params is None else (params,)))}:
            # What is not served is not checked.
            with suppress(NotFound):
                schemas[version] = {**await self._client.published_schemas(version)}
        return await asyncio.to_thread(expression_warnings, policy.spec, kinds, schemas)


def _with_status(policy: ValidatingAdmissionPolicy, found: list[ExpressionProblem]) -> Document:
    warnings = [{"fieldRef": problem.field, "warning": problem.text} for problem in found]
    return {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "metadata": {"name": policy.metadata.name},
        "status": {
            "observedGeneration": policy.metadata.generation,
            "typeChecking": {"expressionWarnings": warnings} if warnings else {},
        },
    }
