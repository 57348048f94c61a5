"""Creates the flow schemas and priority levels that every cluster has.

Nothing queues requests by them yet.

Upstream: pkg/registry/flowcontrol/rest/storage_flowcontrol.go, pkg/registry/flowcontrol/ensurer/strategy.go
"""

from collections.abc import Awaitable, Callable

from pykubelet.api.errors import AlreadyExists
from pykubelet.api.serializer import encode
from pykubelet.apiserver.namespaces import APISERVER
from pykubelet.apiserver.request import ApiRequest, ApiResponse, WatchStream
from pykubelet.kinds import flow_schema, priority_level_configuration
from pykubelet.kinds.flow_schema import MANDATORY_FLOW_SCHEMAS, SUGGESTED_FLOW_SCHEMAS
from pykubelet.kinds.priority_level_configuration import MANDATORY_PRIORITY_LEVELS, SUGGESTED_PRIORITY_LEVELS

_AUTO_UPDATE = {"apf.kubernetes.io/autoupdate-spec": "true"}


async def ensure_flow_control(handle: Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]]) -> None:
    """Creates those that do not exist."""
    wanted = [
        (priority_level_configuration.KIND, {**MANDATORY_PRIORITY_LEVELS, **SUGGESTED_PRIORITY_LEVELS}),
        (flow_schema.KIND, {**MANDATORY_FLOW_SCHEMAS, **SUGGESTED_FLOW_SCHEMAS}),
    ]
    for served, specs in wanted:
        resource = served.resource
        for name, spec in specs.items():
            metadata = {"name": name, "annotations": _AUTO_UPDATE}
            body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, "spec": spec}
            request = ApiRequest(
                user=APISERVER, verb="create", served=served, body=encode(body), user_agent="kube-apiserver"
            )
            try:
                await handle(request)
            except AlreadyExists:
                continue
