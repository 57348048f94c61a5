"""The root CA publisher: keeps the config map `kube-root-ca.crt` in every namespace.

Pods mount it beside their service account token to verify the API server.

Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go
"""

from contextlib import suppress

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import ConfigMap, Namespace
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import CONFIG_MAPS, NAMESPACES
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType, Writer
from pykubelet.controllers.framework.pod_control import terminating_namespace_ignored
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

NAME = "kube-root-ca.crt"
KEY = "ca.crt"
ANNOTATION = "kubernetes.io/description"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCaPublisher(KeyedController):
    """Syncs namespaces by name."""

    def __init__(self, *, client: Writer, maps: ObjectIndex[ConfigMap], root_ca: str) -> None:
        """`root_ca` is the PEM text of the certificates."""
        self._client, self._maps, self._root_ca = client, maps, root_ca
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(NAMESPACES, added=self.namespace_added, updated=self.namespace_updated)
        informers.add_event_handler(CONFIG_MAPS, updated=lambda _, new: self.map_changed(new), deleted=self.map_changed)

    def namespace_added(self, namespace: Namespace) -> None:
        self.queue.add(namespace.metadata.name)

    def namespace_updated(self, _old: Namespace, new: Namespace) -> None:
        if new.status.phase == "Active":
            self.queue.add(new.metadata.name)

    def map_changed(self, found: ConfigMap) -> None:
        """Enqueues the namespace if its root CA config map was changed or deleted."""
        if found.metadata.name == NAME:
            self.queue.add(found.metadata.namespace)

    async def sync(self, name: str) -> None:
        """Creates or restores the config map of one namespace."""
        found = self._maps.get(f"{name}/{NAME}")
        if found is None:
            # NotFound means that the namespace is gone.
            with suppress(NotFound), terminating_namespace_ignored():
                await self._client.create(CONFIG_MAPS, new_map(name, self._root_ca), namespace=name)
        elif patch := correction(found, self._root_ca):
            await self._client.patch(CONFIG_MAPS, NAME, patch, namespace=name, patch_type=PatchType.MERGE)


def new_map(namespace: str, root_ca: str) -> ConfigMap:
    metadata = ObjectMeta(name=NAME, namespace=namespace, annotations={ANNOTATION: DESCRIPTION})
    return ConfigMap(metadata=metadata, data={KEY: root_ca})


def correction(found: ConfigMap, root_ca: str) -> Document | None:
    """The merge patch that restores the config map; None if it is correct. Other annotations are kept."""
    if found.data == {KEY: root_ca} and found.metadata.annotations.get(ANNOTATION):
        return None
    metadata = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
    data = {**dict.fromkeys(found.data), KEY: root_ca}
    return {"metadata": {**metadata, "annotations": {ANNOTATION: DESCRIPTION}}, "data": data}
