"""What an update may change of a service's addresses and IP families: the secondary ones only."""

from typing import Any

import pytest

from pykubelet.kinds.service.validation import address_change_errors

FIXED = "may not change once set"
V4, V6, OTHER = "10.0.0.1", "fd00::1", "10.0.0.2"
DUAL = {
    "type": "ClusterIP",
    "clusterIPs": [V4, V6],
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "PreferDualStack",
}
SINGLE = {"type": "ClusterIP", "clusterIPs": [V4], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
HEADLESS = {"type": "ClusterIP", "clusterIPs": ["None"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
RELEASED = "must be set to 'SingleStack' when releasing the secondary"


@pytest.mark.parametrize(
    ("old", "change", "errors"),
    [
        pytest.param(DUAL, {}, [], id="nothing"),
        pytest.param(SINGLE, DUAL, [], id="a secondary address is added"),
        pytest.param(DUAL, SINGLE, [], id="the secondary address is released"),
        pytest.param(
            DUAL,
            SINGLE | {"ipFamilyPolicy": "PreferDualStack"},
            [f"spec.ipFamilyPolicy: {RELEASED} clusterIP", f"spec.ipFamilyPolicy: {RELEASED} ipFamily"],
            id="released under the wrong policy",
        ),
        pytest.param(
            DUAL,
            SINGLE | {"ipFamilyPolicy": None},
            [f"spec.ipFamilyPolicy: {RELEASED} clusterIP", f"spec.ipFamilyPolicy: {RELEASED} ipFamily"],
            id="released without a policy",
        ),
        pytest.param(DUAL, {"clusterIPs": [OTHER, V6]}, [f"spec.clusterIPs[0]: {FIXED}"], id="another primary address"),
        pytest.param(DUAL, {"clusterIPs": [V4, "fd00::2"]}, [f"spec.clusterIPs[1]: {FIXED}"], id="another secondary"),
        pytest.param(
            DUAL,
            SINGLE | {"clusterIPs": [OTHER]},
            [f"spec.clusterIPs[0]: {FIXED}"],
            id="another primary address, and no secondary one",
        ),
        pytest.param(
            SINGLE,
            DUAL | {"clusterIPs": [OTHER, V6], "ipFamilies": ["IPv6", "IPv4"]},
            [f"spec.clusterIPs[0]: {FIXED}", f"spec.ipFamilies[0]: {FIXED}"],
            id="a secondary address and another primary one",
        ),
        pytest.param(
            DUAL,
            {"clusterIPs": [], "ipFamilies": []},
            [
                "spec.clusterIPs[0]: primary clusterIP can not be unset",
                "spec.ipFamilies[0]: primary ipFamily can not be unset",
            ],
            id="no addresses",
        ),
        pytest.param(DUAL, {"ipFamilies": ["IPv6", "IPv6"]}, [f"spec.ipFamilies[0]: {FIXED}"], id="another family"),
        pytest.param(HEADLESS, {"clusterIPs": ["None"], "ipFamilies": ["IPv6"]}, [], id="headless before and after"),
        pytest.param(
            HEADLESS, SINGLE | {"ipFamilies": ["IPv6"]}, [f"spec.clusterIPs[0]: {FIXED}"], id="no longer headless"
        ),
        pytest.param(DUAL, {"type": "ExternalName", "clusterIPs": [], "ipFamilies": []}, [], id="to a name"),
        pytest.param(SINGLE | {"type": "ExternalName"}, SINGLE | {"clusterIPs": [OTHER]}, [], id="from a name"),
    ],
)
def test_primary_address_and_family_stay(old: dict[str, Any], change: dict[str, Any], errors: list[str]) -> None:
    new = old | change
    found = address_change_errors(new, old)
    assert [f"{error.field}: {str(error).rpartition(': ')[2]}" for error in found] == errors
