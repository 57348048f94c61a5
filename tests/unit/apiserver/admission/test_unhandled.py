"""What `up` stores without acting on it is answered with a warning that names it."""

from typing import Any

import pytest

from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.unhandled import UNHANDLED, UnhandledWarnings
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.apiserver.request import UserInfo

REGISTRY = ServedKinds(BUILT_IN_KINDS)
CLAIMS = {"resourceClaims": [{"name": "gpu"}]}

USES: list[tuple[str, dict[str, Any], str]] = [
    ("networkpolicies.networking.k8s.io", {}, "NetworkPolicy"),
    ("services", {"spec": {"type": "LoadBalancer"}}, "Service spec.type LoadBalancer"),
    ("volumeattachments.storage.k8s.io", {}, "VolumeAttachment"),
    ("volumeattributesclasses.storage.k8s.io", {}, "VolumeAttributesClass"),
    *(
        (f"{kind}.storage.k8s.io", {}, "CSIDriver, CSINode and CSIStorageCapacity")
        for kind in ("csidrivers", "csinodes", "csistoragecapacities")
    ),
    ("servicecidrs.networking.k8s.io", {"spec": {"cidrs": ["2001:db8::/64"]}}, "ServiceCIDR spec.cidrs of IPv6"),
    ("resourceclaims.resource.k8s.io", {}, "ResourceClaim and ResourceClaimTemplate"),
    ("resourceclaimtemplates.resource.k8s.io", {}, "ResourceClaim and ResourceClaimTemplate"),
    ("deviceclasses.resource.k8s.io", {}, "DeviceClass and ResourceSlice"),
    ("resourceslices.resource.k8s.io", {}, "DeviceClass and ResourceSlice"),
    ("replicationcontrollers", {"spec": {"template": {"spec": CLAIMS}}}, "Pod spec.resourceClaims"),
    ("pods", {"spec": CLAIMS}, "Pod spec.resourceClaims"),
    ("deployments.apps", {"spec": {"template": {"spec": CLAIMS}}}, "Pod spec.resourceClaims"),
    ("jobs.batch", {"spec": {"template": {"spec": CLAIMS}}}, "Pod spec.resourceClaims"),
    ("cronjobs.batch", {"spec": {"jobTemplate": {"spec": {"template": {"spec": CLAIMS}}}}}, "Pod spec.resourceClaims"),
    ("pods/resize", {"spec": {}}, "Pod resources, through pods/resize"),
]
NO_USES: list[tuple[str, dict[str, Any]]] = [
    ("services", {"spec": {"type": "ClusterIP"}}),
    ("servicecidrs.networking.k8s.io", {"spec": {"cidrs": ["10.0.0.0/24"]}}),
    ("pods", {"spec": {}}),
    ("pods/status", {"spec": CLAIMS}),
    ("deployments.apps", {"spec": {"template": {"spec": {}}}}),
    ("networkpolicies.networking.k8s.io/status", {}),
]


def warnings_of(place: str, document: dict[str, Any]) -> list[str]:
    """The warnings for a write of an object, given its resource and subresource."""
    collection, _, subresource = place.partition("/")
    served = REGISTRY.of_collection(collection)
    assert served is not None
    new = {"metadata": {"name": "x"}, **document}
    found: list[str] = []
    attributes = AdmissionAttributes(
        user=UserInfo("u"),
        verb="update" if subresource else "create",
        served=served,
        namespace="default",
        name="x",
        subresource=subresource,
        warn=found.append,
    )
    plugin = UnhandledWarnings()
    assert collection in plugin.resources
    assert plugin.admit(attributes, new, None) == new
    return found


@pytest.mark.parametrize(("place", "document", "subject"), USES)
def test_warning_names_what_nothing_acts_on(place: str, document: dict[str, Any], subject: str) -> None:
    """It says what the user will miss."""
    (warning,) = warnings_of(place, document)
    assert warning.startswith(f"{subject}: ")


@pytest.mark.parametrize(("place", "document"), NO_USES)
def test_objects_that_something_acts_on_have_no_warning(place: str, document: dict[str, Any]) -> None:
    """Nor have writes of another subresource."""
    assert warnings_of(place, document) == []


def test_every_row_of_the_table_is_tried_here() -> None:
    """And every resource of the table is one that the server serves."""
    assert {feature.subject for feature in UNHANDLED} == {subject for _, _, subject in USES}
    for feature in UNHANDLED:
        assert all(REGISTRY.of_collection(resource) is not None for resource in feature.resources)
