"""Reads and writes metadata.managedFields: caps the number of updaters, and maps owners of a Scale.

A Scale is made of its object for each request, and so are its managedFields. After the write, the owners of the
replicas are mapped back into the object's entries; a new one has no time, as upstream.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/buildmanagerinfo.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import format_time, parse_time
from pykubelet.apiserver.fieldmanager import fieldpath
from pykubelet.apiserver.fieldmanager.fieldpath import FieldsError, FieldTree

APPLY: Final = "Apply"
UPDATE: Final = "Update"
# Above this number, the oldest updaters are merged into one entry.
_MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"
_FORM = "FieldsV1"
_LONGEST_MANAGER_BYTES = 128


class ManagerIdentifier(NamedTuple):
    """Identifies an entry of managedFields. An applier has one entry for all versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def text(self) -> str:
        """The JSON by which upstream identifies and sorts managers."""
        named = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        return encode({name: value for name, value in named.items() if value}).decode()


class ManagerFields(NamedTuple):
    """The fields of a manager, the version they are in, and when they last changed."""

    fields: FieldTree
    api_version: str
    time: str | None = None


Owners = dict[ManagerIdentifier, ManagerFields]


def manager_name(field_manager: str, user_agent: str) -> str:
    """The manager of a write: the request's fieldManager, else the program name in the user agent."""
    if field_manager:
        return field_manager
    program = user_agent.partition("/")[0]
    if program.isascii() and program.isprintable():
        return program[:_LONGEST_MANAGER_BYTES]
    name = ""
    for character in program:
        if not character.isprintable():
            continue
        if len((name + character).encode("utf-8", "replace")) > _LONGEST_MANAGER_BYTES:
            break
        name += character
    return name


def owner_id(manager: str, operation: str, api_version: str, subresource: str) -> ManagerIdentifier:
    return ManagerIdentifier(manager or "unknown", operation, "" if operation == APPLY else api_version, subresource)


def stored_owners(entries: Sequence[Document]) -> Owners:
    """Reads entries that the server wrote, without validation."""
    return {
        owner_id(
            entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", "")
        ): ManagerFields(entry.get("fieldsV1", {}), entry["apiVersion"], entry.get("time"))
        for entry in entries
    }


def read_owners(entries: Any) -> Owners:
    """Reads entries that a client sent; FieldsError if they are invalid."""
    if not isinstance(entries, list):
        raise FieldsError("managedFields must be a list")
    return dict(_read_owner(entry, position) for position, entry in enumerate(entries))


def _read_owner(entry: Any, position: int) -> tuple[ManagerIdentifier, ManagerFields]:
    if not isinstance(entry, dict):
        raise FieldsError(f"managed fields entry {position} must be an object")
    manager, operation, api_version, subresource, form = (
        entry.get(name) or "" for name in ("manager", "operation", "apiVersion", "subresource", "fieldsType")
    )
    if not all(isinstance(value, str) for value in (manager, operation, api_version, subresource, form)):
        raise FieldsError(f"managed fields entry {position} must hold texts")
    if operation not in {APPLY, UPDATE}:
        raise FieldsError("operation must be `Apply` or `Update`")
    if not api_version:
        raise FieldsError("apiVersion must not be empty")
    if not form:
        raise FieldsError(f"missing fieldsType in managed fields entry {position}")
    if form != _FORM:
        raise FieldsError(f'invalid fieldsType "{form}" in managed fields entry {position}')
    owner = ManagerIdentifier(manager, operation, "" if operation == APPLY else api_version, subresource)
    return owner, ManagerFields(
        fieldpath.read_fields(entry.get("fieldsV1")), api_version, _read_time(entry.get("time"))
    )


def _read_time(time: Any) -> str | None:
    if time is None:
        return None
    try:
        return format_time(parse_time(time))
    except (TypeError, ValueError, OverflowError) as error:
        raise FieldsError(f"invalid time in managed fields: {error}") from error


def managed_fields(owners: Owners) -> list[Document]:
    """The entries of metadata.managedFields, in upstream's order."""

    def rank(owner: ManagerIdentifier) -> tuple[str, ...]:
        owned = owners[owner]
        return owner.operation, owned.time or "", owner.manager, owned.api_version, owner.subresource

    return [_entry(owner, owners[owner]) for owner in sorted(owners, key=rank)]


def _entry(owner: ManagerIdentifier, owned: ManagerFields) -> Document:
    entry: Document = {"manager": owner.manager} if owner.manager else {}
    entry |= {"operation": owner.operation, "apiVersion": owned.api_version}
    if owned.time is not None:
        entry["time"] = owned.time
    entry |= {"fieldsType": _FORM, "fieldsV1": owned.fields}
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


def without_fields(owners: Owners, taken: FieldTree) -> Owners:
    """Takes fields away from the owners; drops owners without fields."""
    left: Owners = {}
    for owner, owned in owners.items():
        fields = fieldpath.difference(owned.fields, taken)
        if fields:
            left[owner] = owned if fields is owned.fields else owned._replace(fields=fields)
    return left


def cap_updaters(owners: Owners) -> Owners:
    """Merges the oldest updaters of each version into `ancient-changes` if there are more than ten."""
    updaters = [owner for owner in owners if owner.operation == UPDATE]
    surplus = len(updaters) - _MOST_UPDATERS
    if surplus <= 0:
        return owners
    updaters.sort(key=lambda owner: (owners[owner].time or "", owner.text))
    left = dict(owners)
    first_of: dict[str, ManagerIdentifier] = {}
    for owner in updaters:
        if surplus <= 0:
            break
        merged = left[owner]
        version = merged.api_version
        if version not in first_of:
            first_of[version] = owner
            continue
        bucket = ManagerIdentifier(_ANCIENT, UPDATE, version, "")
        if owner == bucket:
            continue
        if bucket not in left:
            left[bucket] = left.pop(first_of[version])
        left[bucket] = ManagerFields(fieldpath.union(merged.fields, left[bucket].fields), version, merged.time)
        del left[owner]
        surplus -= 1
    return left


SCALE_VERSION: Final = "autoscaling/v1"
SPEC_REPLICAS: Final = ("f:spec", "f:replicas")


def replicas_path(path: str) -> tuple[str, ...]:
    """The path of `.spec.replicas`, or of a custom resource's replicas."""
    return tuple(f"f:{name}" for name in path.removeprefix(".").split("."))


def scale_owners(entries: Sequence[Document], path: tuple[str, ...] = SPEC_REPLICAS) -> list[Document]:
    """The managedFields of the Scale: the managers that own the replicas."""
    return managed_fields(
        {
            owner: ManagerFields(fieldpath.tree_of(SPEC_REPLICAS), SCALE_VERSION, owned.time)
            for owner, owned in stored_owners(entries).items()
            if fieldpath.has(owned.fields, path)
        }
    )


def parent_owners(
    entries: Sequence[Document],
    of_scale: Sequence[Document],
    *,
    api_version: str,
    path: tuple[str, ...] = SPEC_REPLICAS,
) -> list[Document]:
    """The object's managedFields after its Scale was written."""
    new = {
        owner if owner.operation == APPLY else owner._replace(api_version=api_version)
        for owner, owned in stored_owners(of_scale).items()
        if fieldpath.has(owned.fields, SPEC_REPLICAS)
    }
    replicas = fieldpath.tree_of(path)
    owners: Owners = {}
    for owner, owned in stored_owners(entries).items():
        if owner in new or not fieldpath.has(owned.fields, path):
            owners[owner] = owned
            new.discard(owner)
        elif fields := fieldpath.difference(owned.fields, replicas):
            owners[owner] = owned._replace(fields=fields)
    return managed_fields({**owners, **{owner: ManagerFields(replicas, api_version) for owner in new}})
