"""What a strategic patch must know of a field: its type, merge key and strategy.

In: the name of a definition such as `core.v1.Pod`, or the pair (apiVersion, kind). Out: a `TypeSchema`, which is asked
field by field on the way down a document. The facts are those of `api/generated/schema.json`, read once.

Upstream: apimachinery/pkg/util/strategicpatch/meta.go, apimachinery/third_party/forked/golang/json/fields.go.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final, Literal

import msgspec

from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.patch.errors import PatchError, UnknownFieldError

Definition = str | tuple[str, str]
"""`core.v1.Pod`, or `("v1", "Pod")`."""

Strategy = Literal["", "merge", "replace"]


@dataclass(frozen=True, slots=True, eq=False)
class PatchMeta:
    """How one field is patched; `element` is the type of a list's items, and for other fields the type itself."""

    type: "TypeSchema"
    element: "TypeSchema"
    is_list: bool = False
    merge_key: str = ""
    strategy: Strategy = ""
    retain_keys: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TypeSchema:
    """A type of the API: a struct with fields, or a kind of value (map, slice, string, ...) without any."""

    name: str
    go_kind: str = "struct"
    fields: dict[str, PatchMeta] = field(default_factory=dict, repr=False)

    def field(self, key: str) -> PatchMeta:
        """How the field `key` is patched; raises `UnknownFieldError`. As in Go, case counts only as a second thought."""
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
        """How the list `key` is patched; raises `UnknownFieldError` for a field that is not a list as well."""
        found = self.field(key)
        if not found.is_list:
            raise UnknownFieldError(f"expected slice or array type, but got: {self.go_kind}")
        return found


def type_schema(definition: Definition) -> TypeSchema:
    """The type that a definition name or (apiVersion, kind) stands for; raises `PatchError` if there is none."""
    name = definition if isinstance(definition, str) else _names_by_kind().get(definition, "")
    found = _types().get(name)
    if found is None:
        raise PatchError(f"no definition {definition!r}: strategic merge patch format is not supported")
    return found


class _FieldRecord(msgspec.Struct):
    """One field as schema.json has it."""

    type: str
    ref: str = ""
    items: "_FieldRecord | None" = None
    key: str = ""
    strategy: tuple[str, ...] = ()


class _DefinitionRecord(msgspec.Struct, rename="camel"):
    """One definition as schema.json has it."""

    fields: dict[str, _FieldRecord]
    kind: str = ""
    api_version: str = ""


_PLAIN_TYPES: Final = {
    "string": TypeSchema("string", "string"),
    "bytes": TypeSchema("byte", "slice"),
    "integer": TypeSchema("int64", "int64"),
    "number": TypeSchema("float64", "float64"),
    "boolean": TypeSchema("bool", "bool"),
    "map": TypeSchema("map", "map"),
    "array": TypeSchema("slice", "slice"),
    # Structs in Go, whose fields no JSON document can name.
    "time": TypeSchema("Time"),
    "quantity": TypeSchema("Quantity"),
    "int-or-string": TypeSchema("IntOrString"),
    "any": TypeSchema("RawExtension"),
}

# The generated table leaves it out because no Struct carries it; documents do, and a patch replaces it as a whole.
_MANAGED_FIELDS: Final = PatchMeta(_PLAIN_TYPES["array"], _PLAIN_TYPES["any"], is_list=True)


@cache
def _records() -> dict[str, _DefinitionRecord]:
    data = resources.files("pykubelet.api.generated").joinpath("schema.json").read_bytes()
    return msgspec.json.decode(data, type=register_type(dict[str, _DefinitionRecord]))


@cache
def _names_by_kind() -> dict[tuple[str, str], str]:
    return {(record.api_version, record.kind): name for name, record in _records().items() if record.kind}


@cache
def _types() -> dict[str, TypeSchema]:
    records = _records()
    types = {name: TypeSchema(name.rpartition(".")[2]) for name in records}
    for name, record in records.items():
        types[name].fields.update((key, _field_schema(spec, types)) for key, spec in record.fields.items())
    types["meta.v1.ObjectMeta"].fields["managedFields"] = _MANAGED_FIELDS
    return types


def _field_schema(record: _FieldRecord, types: dict[str, TypeSchema]) -> PatchMeta:
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


def _type_of(record: _FieldRecord, types: dict[str, TypeSchema]) -> TypeSchema:
    return types[record.ref] if record.ref else _PLAIN_TYPES[record.type]
