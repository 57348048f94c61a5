"""Deletes objects, and waits until they are gone."""

from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from pykubelet.api.errors import Gone, NotFound
from pykubelet.api.resources import Resource
from pykubelet.app.commands.getting import Scope, follow
from pykubelet.app.commands.session import Session
from pykubelet.kube.client import Selection
from pykubelet.kube.command_plans import DeleteWish, delete_plan
from pykubelet.kube.discovery import Served


@dataclass(frozen=True, slots=True)
class Target:
    """One object to delete; `uid` is that of the one that was."""

    resource: Resource
    namespace: str
    name: str
    uid: str = ""


def target(resource: Resource, namespace: str, name: str) -> Target:
    """An object by its name; what is in no namespace has none."""
    return Target(resource, namespace if resource.namespaced else "", name)


async def targets_of(session: Session, resources: Sequence[Served], scope: Scope) -> list[Target]:
    """The objects that a selection finds."""
    found = []
    for served in resources:
        for document in await session.list(served.resource, scope.namespace, scope.selection):
            metadata = document["metadata"]
            found.append(Target(served.resource, metadata.get("namespace", ""), metadata["name"]))
    return found


async def delete(session: Session, one: Target, wish: DeleteWish) -> Target:
    """Ask for the end of an object; the one that is on its way."""
    answer = await session.document(delete_plan(one.resource, one.namespace, one.name, wish))
    # The answer is the object as it is now, or that it is gone already.
    told = answer.get("details") if answer.get("kind") == "Status" else answer.get("metadata")
    return replace(one, uid=str((told or {}).get("uid", "")))


async def until_gone(session: Session, one: Target) -> None:
    """Wait until it is not there any more, or another one has its name."""
    while True:
        try:
            found = await session.get(one.resource, one.namespace, one.name)
        except NotFound:
            return
        metadata = found["metadata"]
        if one.uid and metadata["uid"] != one.uid:
            return
        by_name = Scope(one.namespace, Selection(fields=f"metadata.name={one.name}"))
        changes = follow(session, one.resource, by_name, metadata["resourceVersion"], as_table=False)
        # Its revision may be forgotten while we wait; then it is looked up again.
        with suppress(Gone):
            async with aclosing(changes) as news:
                async for kind, document in news:
                    if kind == "DELETED" or document["metadata"]["uid"] != metadata["uid"]:
                        return
