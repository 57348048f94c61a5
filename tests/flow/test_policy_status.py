"""The status of ValidatingAdmissionPolicies: type errors of their expressions for each kind that they match."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pykubelet.api.schema import VALIDATING_ADMISSION_POLICIES
from pykubelet.api.scheme import as_documents
from pykubelet.apiserver.apiextensions import customresourcedefinition
from pykubelet.app.controllers import controllers
from pykubelet.client.interface import PatchType
from pykubelet.testing.local_api import LocalApi, local_api
from pykubelet.testing.virtual_time import VirtualClock

_POLICIES = as_documents(VALIDATING_ADMISSION_POLICIES)
_CLOCK = VirtualClock()
Document = dict[str, Any]


@asynccontextmanager
async def checked(folder: Path) -> AsyncIterator[LocalApi]:
    """A server whose policies are checked."""
    names = ("validatingadmissionpolicy-status",)
    async with (
        local_api(folder, clock=_CLOCK) as api,
        controllers(client=api.client, clock=_CLOCK, root_ca="", names=names) as informed,
    ):
        await informed.wait()
        yield api


async def status(api: LocalApi, spec: Document, *, name: str = "p") -> Document:
    """The status of a new policy, once it was checked."""
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }
    await api.client.create(_POLICIES, document)
    return await status_of(api, name, 1)


async def status_of(api: LocalApi, name: str, generation: int) -> Document:
    async with asyncio.timeout(60):
        while True:
            found = (await api.client.get(_POLICIES, name))["status"]
            if found.get("observedGeneration") == generation:
                return dict(found)
            await asyncio.sleep(0.1)


def _spec(
    *expressions: str, group: str = "apps", resources: tuple[str, ...] = ("deployments",), **spec: Any
) -> Document:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": list(resources)}
    validations = [{"expression": each} for each in expressions]
    return {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **spec}


async def test_policy_without_type_errors_is_checked_once_per_generation(tmp_path: Path) -> None:
    async with checked(tmp_path) as api:
        spec = _spec(
            "object.spec.replicas > 1 && oldObject.metadata.labels['a'] == 'b'",
            "object.spec.template.spec.containers.all(c, c.image.startsWith('a') && 'cpu' in c.resources.limits)",
            "authorizer.requestResource.check('get').allowed() && request.namespace == namespaceObject.metadata.name",
            "variables.count == object.spec.replicas",
            variables=[{"name": "count", "expression": "object.status.replicas"}],
        )
        assert await status(api, spec) == {"observedGeneration": 1, "typeChecking": {}}
        stored = await api.client.get(_POLICIES, "p")
        assert [
            each["manager"] for each in stored["metadata"]["managedFields"] if each.get("subresource") == "status"
        ] == ["validatingadmissionpolicy-status"]
        patch = {"spec": {"validations": [{"expression": "object.spec.nothing == 1"}]}}
        await api.client.patch(_POLICIES, "p", patch, patch_type=PatchType.MERGE)
        assert len((await status_of(api, "p", 2))["typeChecking"]["expressionWarnings"]) == 1


async def test_type_errors_are_warnings_with_kind_and_position(tmp_path: Path) -> None:
    async with checked(tmp_path) as api:
        validation = {
            "expression": "object.spec.replicas > '1'",
            "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
        }
        found = await status(api, _spec(resources=("replicasets", "deployments"), validations=[validation]))
        first = "{}, Kind={}: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n"
        second = "{}, Kind={}: ERROR: <input>:1:28: found no matching overload for '_+_' applied to '(string, int)'\n | 'wants replicas > 1, got ' + object.spec.replicas\n | ...........................^\n"
        kinds = (("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"))
        assert found["typeChecking"]["expressionWarnings"] == [
            {"fieldRef": "spec.validations[0].expression", "warning": "\n".join(first.format(*kind) for kind in kinds)},
            {
                "fieldRef": "spec.validations[0].messageExpression",
                "warning": "\n".join(second.format(*kind) for kind in kinds),
            },
        ]


async def test_parameters_have_the_type_of_their_kind(tmp_path: Path) -> None:
    async with checked(tmp_path) as api:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        found = await status(api, _spec("params.data.limit == 'a'", "params.data == 1", paramKind=kind))
        (warning,) = found["typeChecking"]["expressionWarnings"]
        assert warning["fieldRef"] == "spec.validations[1].expression"
        unknown = {"apiVersion": "x.io/v1", "kind": "Limit"}
        found = await status(api, _spec("params.data.limit == 'a'", paramKind=unknown), name="q")
        (warning,) = found["typeChecking"]["expressionWarnings"]
        assert "undeclared reference to 'params' (in container '')" in warning["warning"]


async def test_wildcards_and_kinds_that_are_not_served_are_not_checked(tmp_path: Path) -> None:
    async with checked(tmp_path) as api:
        for name, spec in {
            "any": _spec("object.nothing == 1", resources=("*",)),
            "group": _spec("object.nothing == 1", group="*"),
            "none": _spec("object.nothing == 1", group="x.io", resources=("things",)),
            "subresource": _spec("object.nothing == 1", resources=("deployments/scale",)),
        }.items():
            assert (await status(api, spec, name=name))["typeChecking"] == {}


async def test_custom_resources_are_checked_with_their_schema(tmp_path: Path) -> None:
    size = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"max-size": {"type": "integer"}}}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": size}}],
        },
    }
    async with checked(tmp_path) as api:
        await api.client.create(as_documents(customresourcedefinition.KIND.resource), definition)
        async with asyncio.timeout(60):
            while api.registry.find("x.io", "v1", "things") is None:
                await asyncio.sleep(0.1)
        spec = _spec(
            "object.spec.max__dash__size > 1 && object.metadata.name == 'a'",
            "object.spec.size > 1",
            group="x.io",
            resources=("things",),
        )
        (warning,) = (await status(api, spec))["typeChecking"]["expressionWarnings"]
        text = "x.io/v1, Kind=Thing: ERROR: <input>:1:12: undefined field 'size'\n | object.spec.size > 1\n | ...........^\n"
        assert warning == {"fieldRef": "spec.validations[1].expression", "warning": text}
