"""The answer to somebody who applies fields that others own.

Upstream: apimachinery/pkg/util/managedfields/internal/conflict.go
"""

from pykubelet.api.errors import Conflict
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.apiserver.fields.elements import shown
from pykubelet.apiserver.fields.field_sets import FieldTree, paths
from pykubelet.apiserver.fields.owners import UPDATE, OwnerId

Contested = dict[OwnerId, FieldTree]
"""The fields that others own, by owner."""


def conflict(contested: Contested) -> Conflict:
    """The error: each field with its owner as a cause, and all of them as one message."""
    by_owner = {
        owner: [_shown(path) for path in paths(contested[owner])]
        for owner in sorted(contested, key=lambda owner: owner.text)
    }
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_named(owner)}", "field": field}
        for owner, fields in by_owner.items()
        for field in fields
    ]
    return Conflict(_message(by_owner), details={"causes": causes})


def _message(by_owner: dict[OwnerId, list[str]]) -> str:
    count = sum(map(len, by_owner.values()))
    if count == 1:
        ((owner, (field,)),) = by_owner.items()
        return f"Apply failed with 1 conflict: conflict with {_named(owner)}: {field}"
    lines = [
        line
        for owner, fields in by_owner.items()
        for line in (f"conflicts with {_named(owner)}:", *(f"- {field}" for field in fields))
    ]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _named(owner: OwnerId) -> str:
    name = go_quote(owner.manager)
    if owner.subresource:
        name += f" with subresource {go_quote(owner.subresource)}"
    return f"{name} using {owner.api_version}" if owner.operation == UPDATE else name


def _shown(path: tuple[str, ...]) -> str:
    return "".join(map(shown, path))
