"""Google's protobuf library with the messages of the product's table: a decoder that shares no code with ours."""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from pykubelet.api.schema import Field
from pykubelet.apiserver.serializer.protobuf_messages import JSON_SCHEMA_PROPS, fields_of

_F = FieldDescriptorProto
_SCALARS = {
    "string": _F.TYPE_STRING,
    "integer": _F.TYPE_INT64,
    "boolean": _F.TYPE_BOOL,
    "number": _F.TYPE_DOUBLE,
    "bytes": _F.TYPE_BYTES,
}
# The messages that stand for one value, as Kubernetes publishes them.
_VALUES = {
    "time": {"seconds": "integer", "nanos": "integer"},
    "quantity": {"string": "string"},
    "int-or-string": {"type": "integer", "intVal": "integer", "strVal": "string"},
    "any": {"raw": "bytes"},
    "strings": {"items": "[]string"},
    "schema-or-array": {"schema": JSON_SCHEMA_PROPS, "schemas": f"[]{JSON_SCHEMA_PROPS}"},
    "schema-or-boolean": {"allows": "boolean", "schema": JSON_SCHEMA_PROPS},
    "schema-or-strings": {"schema": JSON_SCHEMA_PROPS, "property": "[]string"},
}


class _File:
    """Descriptors of a message and of everything in it; fields are named by their numbers."""

    def __init__(self) -> None:
        self.proto = FileDescriptorProto(name="kubernetes.proto", package="k", syntax="proto2")
        self._added: set[str] = set()

    def add(self, message: str, definition: str) -> str:
        name = f"{message}__{definition}".replace(".", "_").replace("-", "_")
        if name not in self._added:
            self._added.add(name)
            made = DescriptorProto(name=name)
            if message in _VALUES:
                fields = list(enumerate(map(_typed, _VALUES[message].values()), start=1))
            else:
                fields = [
                    (number, Field("ref", ref=f"{inlined} {definition}") if inlined else field)
                    for number, _, field, inlined in fields_of(message, definition)
                ]
            for number, field in fields:
                self._field(made, number, field)
            self.proto.message_type.append(made)
        return name

    def _field(self, made: DescriptorProto, number: int, field: Field, label: int = _F.LABEL_OPTIONAL) -> None:
        if field.type == "array" and field.items is not None:
            return self._field(made, number, field.items, _F.LABEL_REPEATED)
        added = made.field.add(name=f"f{number}", number=number, label=label)
        if field.type in _SCALARS:
            added.type = _SCALARS[field.type]
            return None
        added.type = _F.TYPE_MESSAGE
        if field.type == "map" and field.items is not None:
            # On the wire a map is a repeated message of a key and a value.
            entry = made.nested_type.add(name=f"F{number}Entry")
            entry.options.map_entry = True
            self._field(entry, 1, Field("string"))
            self._field(entry, 2, field.items if field.items.items is None else Field("strings"))
            entry.field[0].name, entry.field[1].name = "key", "value"
            added.label, added.type_name = _F.LABEL_REPEATED, f".k.{made.name}.F{number}Entry"
            return None
        message, _, definition = (field.ref or f"{field.type} {field.type}").partition(" ")
        added.type_name = f".k.{self.add(message, definition or message)}"
        return None


def _typed(name: str) -> Field:
    if name.startswith("[]"):
        return Field("array", items=_typed(name[2:]))
    return Field("ref", ref=name) if "." in name else Field(name)


@cache
def _class_of(definition: str) -> Any:
    file = _File()
    name = file.add(definition, definition)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file.proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"k.{name}"))


def rewritten(message: bytes, definition: str) -> bytes:
    """The message as Google's library writes it again after reading; what it does not know is dropped."""
    found = _class_of(definition).FromString(message)
    found.DiscardUnknownFields()
    return bytes(found.SerializeToString(deterministic=True))
