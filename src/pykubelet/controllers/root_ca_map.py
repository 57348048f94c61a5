"""The config map that holds the certificates the API server is known by.

Pure. Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from pykubelet.api.generated.core import ConfigMap
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.wire import Document

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
