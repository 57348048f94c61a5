"""ValidatingAdmissionPolicies with a real kubectl and a real server: denials, warnings, parameters, custom resources."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from pykubelet_process import ServerProcess

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}
  paramKind: {apiVersion: rules.example.com/v1, kind: ReplicaLimit}
  variables:
  - {name: replicas, expression: object.spec.replicas}
  validations:
  - expression: variables.replicas <= params.maxReplicas
    messageExpression: "'at most ' + string(params.maxReplicas) + ' replicas, not ' + string(variables.replicas)"
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec:
  policyName: NAME
  validationActions: [ACTION]
  paramRef: {name: limit, parameterNotFoundAction: Deny}
"""
LIMIT_KIND = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: replicalimits.rules.example.com}
spec:
  group: rules.example.com
  scope: Namespaced
  names: {plural: replicalimits, singular: replicalimit, kind: ReplicaLimit, listKind: ReplicaLimitList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {maxReplicas: {type: integer}}}}
"""
LIMIT = """
apiVersion: rules.example.com/v1
kind: ReplicaLimit
metadata: {name: limit}
maxReplicas: 2
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: shop:1}]}
"""


@pytest.fixture
def kubectl(server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].rstrip("-")
    client = Kubectl(server.kubeconfig, name, tmp_path)
    client("create", "namespace", name)
    yield client
    client("delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--all")
    client("delete", "namespace", name, "--timeout=20s")


def _policy(kubectl: Kubectl, action: str) -> str:
    text = POLICY.replace("NAMESPACE", kubectl.namespace)
    return text.replace("NAME", "limits").replace("ACTION", action)


def _deployment(replicas: int) -> str:
    return DEPLOYMENT.replace("REPLICAS", str(replicas))


def _denied(message: str) -> str:
    named = "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request"
    return f'deployments.apps "shop" is forbidden: {named}: {message}'


def test_policy_with_custom_parameters_denies_every_way_to_write(kubectl: Kubectl) -> None:
    """Create, apply, patch, scale and dry run; what it allows is stored, and a deleted policy denies nothing."""
    kubectl("apply", "-f", "-", text=LIMIT_KIND)
    kubectl("wait", "--for=condition=Established", "crd/replicalimits.rules.example.com", "--timeout=20s")
    kubectl("apply", "-f", "-", text=_policy(kubectl, "Deny"))
    missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    # As kubectl shows every error with the reason Invalid.
    named = "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request"
    shown = f'The deployments "shop" is invalid: : {named}: {missing}\n'
    assert kubectl.fails("create", "-f", "-", text=_deployment(1)) == shown
    kubectl("apply", "-f", "-", text=LIMIT)
    too_many = _denied("at most 2 replicas, not 3")
    assert too_many in kubectl.fails("create", "-f", "-", text=_deployment(3))
    assert too_many in kubectl.fails("apply", "--server-side", "-f", "-", text=_deployment(3))
    assert too_many in kubectl.fails("create", "--dry-run=server", "-f", "-", text=_deployment(3))
    kubectl("create", "-f", "-", text=_deployment(2))
    assert too_many in kubectl.fails("patch", "deployment", "shop", "-p", '{"spec": {"replicas": 3}}')
    assert too_many in kubectl.fails("scale", "deployment", "shop", "--replicas=3")
    assert kubectl.json("get", "deployment", "shop")["spec"]["replicas"] == 2
    kubectl("delete", "validatingadmissionpolicybinding", "limits")
    kubectl("scale", "deployment", "shop", "--replicas=3")


def test_failures_are_warnings_or_lines_of_the_audit_log(kubectl: Kubectl, server: ServerProcess) -> None:
    kubectl("apply", "-f", "-", text=LIMIT_KIND)
    kubectl("wait", "--for=condition=Established", "crd/replicalimits.rules.example.com", "--timeout=20s")
    kubectl("apply", "-f", "-", text=LIMIT)
    kubectl("apply", "-f", "-", text=_policy(kubectl, "Warn, Audit"))
    done = kubectl.run("create", "-f", "-", text=_deployment(3))
    text = "Validation failed for ValidatingAdmissionPolicy 'limits' with binding 'limits': at most 2 replicas, not 3"
    assert done.stderr == f"Warning: {text}\n"
    lines = map(json.loads, (server.data / "audit.log").read_text().splitlines())
    (annotations,) = (line["annotations"] for line in lines if line.get("annotations"))
    assert "at most 2 replicas, not 3" in annotations["validation.policy.admission.k8s.io/validation_failure"]


EVERYTHING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: nothing-goes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: nothing-goes}
spec: {policyName: nothing-goes, validationActions: [Deny]}
"""


def test_policy_against_everything_can_be_deleted_even_after_a_start(tmp_path: Path) -> None:
    """It exempts policies, and the server's own objects while it starts."""
    server = ServerProcess(tmp_path).start()
    kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
    kubectl("apply", "-f", "-", text=EVERYTHING)
    assert "denied request" in kubectl.fails("delete", "service", "kubernetes")
    assert server.stop() == 0
    server.start()
    assert "denied request" in kubectl.fails("create", "configmap", "x")
    kubectl("delete", "validatingadmissionpolicy", "nothing-goes")
    kubectl("create", "configmap", "x")
    assert server.stop() == 0


def test_kubectl_shows_and_explains_policies(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", text=_policy(kubectl, "Deny"))
    header, row = kubectl("get", "validatingadmissionpolicies").splitlines()
    assert header.split() == ["NAME", "VALIDATIONS", "PARAMKIND", "AGE"]
    assert row.split()[:3] == ["limits", "1", "rules.example.com/v1/ReplicaLimit"]
    header, row = kubectl("get", "validatingadmissionpolicybindings").splitlines()
    assert header.split() == ["NAME", "POLICYNAME", "PARAMREF", "AGE"]
    assert row.split()[:3] == ["limits", "limits", "*/limit"]
    assert "validationActions" in kubectl("explain", "validatingadmissionpolicybindings.spec")
    broken = _policy(kubectl, "Deny").replace("variables.replicas <=", "variables.replica <=")
    assert "undefined field 'replica'" in kubectl.fails("apply", "-f", "-", text=broken)
