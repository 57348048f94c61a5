"""Where a service's traffic goes: endpoint slices and Endpoints, made of the pods it selects."""

from pykubelet.controllers.endpoints.endpoints import EndpointsController
from pykubelet.controllers.endpoints.service_pods import ServicePods
from pykubelet.controllers.endpoints.slices import EndpointSliceController

__all__ = ["EndpointSliceController", "EndpointsController", "ServicePods"]
