"""Which schema the fields of a resource are managed by: a built-in one, or a custom kind's own."""

from pykubelet.api.wire import Document
from pykubelet.apiserver.fields.schema_types import DEDUCED, FieldSchema, structural_schema
from pykubelet.apiserver.registry import Registry
from pykubelet.apiserver.served import Served

_KEPT = 256
"""More custom kinds than this at a time are compiled again and again, which is slow but right."""


class FieldSchemas:
    """Compiles the schema of a custom resource once for each state of the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._compiled: dict[tuple[str, str], tuple[Document, int, FieldSchema]] = {}

    def of(self, served: Served) -> str | FieldSchema:
        """The definition's name, or the compiled schema."""
        if served.definition:
            return served.definition
        if served.structural is None:
            return DEDUCED
        resource = served.resource
        key = (resource.group_resource, resource.version)
        known = self._compiled.get(key)
        if known is not None and known[0] is served.structural and known[1] == self._registry.generation:
            return known[2]
        versions = frozenset(
            row.resource.api_version
            for row in self._registry.all()
            if row.resource.group_resource == resource.group_resource
        )
        schema = structural_schema(
            served.structural,
            kind=resource.kind,
            versions=versions,
            has_status="status" in served.subresources,
        )
        if len(self._compiled) >= _KEPT:
            self._compiled.clear()
        self._compiled[key] = (served.structural, self._registry.generation, schema)
        return schema
