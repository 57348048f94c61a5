"""The pod template of a workload as it is read: with defaults, without what is not supported.

Upstream: SetDefaults_PodSpec in pkg/apis/core/v1/defaults.go, DropDisabledTemplateFields in pkg/api/pod/util.go
"""

from pykubelet.api.defaults.pod_defaults import default_pod_template_spec
from pykubelet.api.wire import Document
from pykubelet.apiserver.strategies.pod_features import without_disabled_fields


def read_template(template: Document) -> Document:
    """The template as a workload keeps it."""
    filled = default_pod_template_spec(template)
    return {**filled, "spec": without_disabled_fields(filled["spec"])}
