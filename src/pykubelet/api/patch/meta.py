"""Patch metadata of fields: type, merge key and patch strategy.

A `TypeSchema` is looked up by definition name (`core.v1.Pod`) or (apiVersion, kind) and then traversed field by field.
The data comes from `api/schema.py`.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/meta.go,
staging/src/k8s.io/apimachinery/third_party/forked/golang/json/fields.go
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal

from pykubelet.api.patch.errors import PatchError, UnknownFieldError
from pykubelet.api.schema import Field, definition_of, definitions

Definition = str | tuple[str, str]
"""`core.v1.Pod`, or `("v1", "Pod")`."""

Strategy = Literal["", "merge", "replace"]


@dataclass(frozen=True, slots=True, eq=False)
class PatchMeta:
    """How a field is patched; `element` is the type of a list's items, otherwise the type itself."""

    type: "TypeSchema"
    element: "TypeSchema"
    is_list: bool
    merge_key: str
    strategy: Strategy
    retain_keys: bool


@dataclass(frozen=True, slots=True, eq=False)
class TypeSchema:
    """A type of the API: a struct with fields, or a Go kind (map, slice, string, ...) without."""

    name: str
    go_kind: str = "struct"
    fields: dict[str, PatchMeta] = field(default_factory=dict, repr=False)

    def field(self, key: str) -> PatchMeta:
        """Returns the metadata of a field; raises `UnknownFieldError`. Like Go, falls back to ignoring case."""
        found = self.fields.get(key)
        if found is not None:
            return found
        if self.go_kind != "struct":
            raise UnknownFieldError(
                f"merging an object in json but data type is not struct, instead is: {self.go_kind}"
            )
        folded = key.casefold()
        for name, candidate in self.fields.items():
            if name.casefold() == folded:
                return candidate
        raise UnknownFieldError(f'unable to find api field in struct {self.name} for the json field "{key}"')

    def list_field(self, key: str) -> PatchMeta:
        """Returns the metadata of a list field; raises `UnknownFieldError`, also if it is not a list."""
        found = self.field(key)
        if not found.is_list:
            raise UnknownFieldError(f"expected slice or array type, but got: {self.go_kind}")
        return found


def type_schema(definition: Definition) -> TypeSchema:
    """Returns the type of a definition; raises `PatchError` if it is unknown."""
    name = definition if isinstance(definition, str) else definition_of(*definition) or ""
    found = _types().get(name)
    if found is None:
        raise PatchError(f"no definition {definition!r}: strategic merge patch format is not supported")
    return found


_PLAIN_TYPES: Final = {
    "string": TypeSchema("string", "string"),
    "bytes": TypeSchema("byte", "slice"),
    "integer": TypeSchema("int64", "int64"),
    "number": TypeSchema("float64", "float64"),
    "boolean": TypeSchema("bool", "bool"),
    "map": TypeSchema("map", "map"),
    "array": TypeSchema("slice", "slice"),
    # Structs in Go whose fields a JSON document cannot contain.
    "time": TypeSchema("Time"),
    "quantity": TypeSchema("Quantity"),
    "int-or-string": TypeSchema("IntOrString"),
    "any": TypeSchema("RawExtension"),
}


@cache
def _types() -> dict[str, TypeSchema]:
    records = definitions()
    types = {name: TypeSchema(name.rpartition(".")[2]) for name in records}
    for name, record in records.items():
        types[name].fields.update((key, _field_schema(spec, types)) for key, spec in record.fields.items())
    return types


def _field_schema(record: Field, types: dict[str, TypeSchema]) -> PatchMeta:
    strategy: Strategy = "merge" if "merge" in record.strategy else "replace" if "replace" in record.strategy else ""
    is_list = record.type == "array"
    return PatchMeta(
        type=_type_of(record, types),
        element=_type_of(record.items if is_list and record.items else record, types),
        is_list=is_list,
        merge_key=record.key,
        strategy=strategy,
        retain_keys="retainKeys" in record.strategy,
    )


def _type_of(record: Field, types: dict[str, TypeSchema]) -> TypeSchema:
    return types[record.ref] if record.ref else _PLAIN_TYPES[record.type]
