"""The root CA publisher: in every namespace the certificate that the API server is known by.

In: changes of namespaces and of these config maps. Out: the config map made where it is missing and put right where
somebody changed it; every pod mounts it beside its token.
Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go.

The config map that holds the certificates the API server is known by.

Pure. Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import ConfigMap, Namespace
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import CONFIG_MAPS, NAMESPACES
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType, Writer
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.framework.work_queue import WorkQueue

NAME = "kube-root-ca.crt"
KEY = "ca.crt"
ANNOTATION = "kubernetes.io/description"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def new_map(namespace: str, root_ca: str) -> ConfigMap:
    """The config map of a namespace."""
    metadata = ObjectMeta(name=NAME, namespace=namespace, annotations={ANNOTATION: DESCRIPTION})
    return ConfigMap(metadata=metadata, data={KEY: root_ca})


def correction(found: ConfigMap, root_ca: str) -> Document | None:
    """The merge patch that puts a config map right; None if it is. Other annotations than ours are left alone."""
    if found.data == {KEY: root_ca} and found.metadata.annotations.get(ANNOTATION):
        return None
    metadata = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
    data = {**dict.fromkeys(found.data), KEY: root_ca}
    return {"metadata": {**metadata, "annotations": {ANNOTATION: DESCRIPTION}}, "data": data}


class RootCaPublisher:
    """Syncs namespaces by name."""

    def __init__(self, *, client: Writer, maps: ObjectIndex[ConfigMap], root_ca: str) -> None:
        """`root_ca` is the PEM text of the certificates."""
        self._client, self._maps, self._root_ca = client, maps, root_ca
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Hear of every change of namespaces and config maps."""
        informers.add_event_handler(
            NAMESPACES, added=self.namespace_added, updated=self.namespace_updated, deleted=lambda _namespace: None
        )
        informers.add_event_handler(
            CONFIG_MAPS,
            added=lambda _found: None,
            updated=lambda _, new: self.map_changed(new),
            deleted=self.map_changed,
        )

    def namespace_added(self, namespace: Namespace) -> None:
        """A namespace is new."""
        self.queue.add(namespace.metadata.name)

    def namespace_updated(self, _old: Namespace, new: Namespace) -> None:
        """A namespace has changed."""
        if new.status.phase == "Active":
            self.queue.add(new.metadata.name)

    def map_changed(self, found: ConfigMap) -> None:
        """A config map has changed or is gone."""
        if found.metadata.name == NAME:
            self.queue.add(found.metadata.namespace)

    async def process_next(self) -> None:
        """Sync the next namespace of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, name: str) -> None:
        """Make the config map of one namespace, or put it right."""
        found = self._maps.get(f"{name}/{NAME}")
        if found is None:
            await self._make(name)
        elif patch := correction(found, self._root_ca):
            await self._client.patch(CONFIG_MAPS, NAME, patch, namespace=name, patch_type=PatchType.MERGE)

    async def _make(self, namespace: str) -> None:
        try:
            await self._client.create(CONFIG_MAPS, new_map(namespace, self._root_ca), namespace=namespace)
        except NotFound:
            # The namespace is gone.
            return
        except ApiError as error:
            if not error.has_cause(NAMESPACE_TERMINATING):
                raise
