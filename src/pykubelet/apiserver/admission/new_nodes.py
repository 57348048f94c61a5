"""A new node is tainted until somebody has found it ready.

Upstream: plugin/pkg/admission/nodetaint/admission.go
"""

from pykubelet.api.resources import NODES
from pykubelet.api.wire import Document
from pykubelet.apiserver.admission import Request
from pykubelet.apiserver.strategies.nodes import with_not_ready_taint


class NewNodeTaint:
    """The rule."""

    def admit(self, request: Request, new: Document | None, old: Document | None) -> Document | None:
        is_node = request.served.resource.group_resource == NODES.group_resource
        if new is None or old is not None or request.subresource or not is_node:
            return new
        return with_not_ready_taint(new)
