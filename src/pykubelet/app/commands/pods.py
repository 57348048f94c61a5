"""Finds the pod that a person means by its name, or by that of what it belongs to."""

from dataclasses import dataclass

from pykubelet.api.resources import PODS
from pykubelet.api.wire import Document
from pykubelet.app.commands.session import Session
from pykubelet.kube.client import Selection
from pykubelet.kube.pod_choice import most_useful, selector_of_pods
from pykubelet.kube.resource_names import resource_of


class NoPod(Exception):
    """There is none to choose."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pod; how many there were to choose from; and what it was named by, if not itself."""

    pod: Document
    candidates: int = 1
    owner: Document | None = None

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])


async def pod_of(session: Session, word: str) -> Chosen:
    """The pod `web`, `pod/web`, or one of `deploy/web`. NoPod, UnknownResource; ApiError."""
    kind, slash, name = word.rpartition("/")
    if not slash or kind in {"po", "pod", "pods"}:
        return Chosen(await session.get(PODS, session.namespace, name))
    resource = resource_of(kind, await session.catalogue()).resource
    if resource == PODS:
        return Chosen(await session.get(PODS, session.namespace, name))
    owner = await session.get(resource, session.namespace, name)
    selector = selector_of_pods(owner)
    if not selector:
        raise NoPod(f"{word} has no selector, so it has no pods of its own")
    pods = await session.list(PODS, session.namespace, Selection(selector))
    if not pods:
        raise NoPod(f"{word} has no pods now")
    return Chosen(most_useful(pods), len(pods), owner)
