"""The rules of endpoints, service accounts, replication controllers and pod templates."""

from typing import Any

import pytest

from pykubelet.kinds import endpoints, pod_template, replication_controller, service_account
from strategy_calls import TEMPLATE, create, update, update_status

ENDPOINTS = endpoints.KIND.strategy
REPLICATION_CONTROLLERS = replication_controller.KIND.strategy
POD_TEMPLATES = pod_template.KIND.strategy
SERVICE_ACCOUNTS = service_account.KIND.strategy

_SUBDOMAIN = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
_SUBSET = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}


def test_ports_of_endpoints_default_to_tcp() -> None:
    endpoints, messages = create(ENDPOINTS, {"subsets": [_SUBSET]})
    assert (endpoints["subsets"][0]["ports"], messages) == ([{"port": 80, "protocol": "TCP"}], [])


@pytest.mark.parametrize(
    ("subset", "messages"),
    [
        pytest.param(
            {"ports": []}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"], id="nothing"
        ),
        pytest.param(
            {"addresses": [{"ip": "169.254.0.1"}]},
            [
                'subsets[0].addresses[0].ip: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)'
            ],
            id="link local",
        ),
        pytest.param(
            {"notReadyAddresses": [{"ip": "ff02::1"}]},
            [
                'subsets[0].notReadyAddresses[0].ip: Invalid value: "ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'
            ],
            id="multicast",
        ),
        pytest.param(
            {"addresses": [{"ip": "10.0.0.1", "nodeName": "a_b"}]},
            [f'subsets[0].addresses[0].nodeName: Invalid value: "a_b": {_SUBDOMAIN}'],
            id="node",
        ),
        pytest.param(
            {"addresses": [{"ip": "0.0.0.0"}]},
            ['subsets[0].addresses[0].ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)'],
            id="unspecified",
        ),
        pytest.param(
            {**_SUBSET, "ports": [{"port": 80}, {"port": 81, "name": "a", "protocol": "X"}]},
            [
                "subsets[0].ports[0].name: Required value",
                'subsets[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            ],
            id="ports",
        ),
    ],
)
def test_bad_endpoints_are_rejected_unless_they_were_there(subset: dict[str, Any], messages: list[str]) -> None:
    stored, found = create(ENDPOINTS, {"subsets": [subset]})
    assert found == messages
    assert update(ENDPOINTS, stored, {"metadata": {"labels": {"a": "b"}}})[1] == []


def test_service_account_keeps_nothing_but_the_names_of_its_secrets() -> None:
    account, messages = create(SERVICE_ACCOUNTS, {"secrets": [{"name": "s", "namespace": "other"}, {}]})
    assert (account["secrets"], messages) == ([{"name": "s"}, {}], [])


def test_controller_takes_selector_and_labels_from_its_template() -> None:
    """There is one replica by default; the generation increases with the spec."""
    controller, messages = create(REPLICATION_CONTROLLERS, {"spec": {"template": TEMPLATE}})
    spec = controller["spec"]
    assert (messages, spec["selector"], spec["replicas"]) == ([], {"a": "b"}, 1)
    assert controller["metadata"]["labels"] == {"a": "b"}
    assert REPLICATION_CONTROLLERS.fields(controller)["status.replicas"] == "0"
    scaled, _ = update(REPLICATION_CONTROLLERS, controller, {"spec": {"replicas": 2}})
    assert scaled["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param({}, ["spec.selector: Required value", "spec.template: Required value"], id="nothing"),
        pytest.param(
            {"template": TEMPLATE, "selector": {"a": "c"}},
            [
                'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
            ],
            id="other labels",
        ),
        pytest.param(
            {"template": TEMPLATE, "replicas": -1},
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            id="negative",
        ),
    ],
)
def test_bad_controller_is_rejected(spec: dict[str, Any], messages: list[str]) -> None:
    assert create(REPLICATION_CONTROLLERS, {"spec": spec})[1] == messages


def test_status_of_a_controller_counts_no_more_than_there_are() -> None:
    controller, _ = create(REPLICATION_CONTROLLERS, {"spec": {"template": TEMPLATE}})
    assert update_status(REPLICATION_CONTROLLERS, controller, {"status": {"readyReplicas": 1}})[1] == [
        "status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas"
    ]


def test_generation_of_a_pod_template_moves_with_it() -> None:
    stored, messages = create(POD_TEMPLATES, {"template": TEMPLATE})
    assert (stored["metadata"]["generation"], messages) == (1, [])
    labelled, _ = update(POD_TEMPLATES, stored, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    changed, _ = update(POD_TEMPLATES, stored, {"template": {"metadata": {"labels": {"a": "c"}}}})
    assert changed["metadata"]["generation"] == 2
