"""The AdmissionRequest that webhooks receive and expressions see.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go
"""

from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.webhook.predicates import Invocation, kind_name, resource_name


def admission_request(attributes: AdmissionAttributes, invocation: Invocation) -> Document:
    """The request without uid and objects."""
    user, subresource = attributes.user, attributes.subresource
    user_info: dict[str, Any] = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    optional = {
        "subResource": subresource,
        "requestSubResource": subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
    }
    return {
        "kind": invocation.kind._asdict(),
        "resource": invocation.resource._asdict(),
        "requestKind": kind_name(attributes.served, subresource)._asdict(),
        "requestResource": resource_name(attributes.served)._asdict(),
        **{name: value for name, value in optional.items() if value},
        "operation": attributes.verb.upper(),
        "userInfo": {name: value for name, value in user_info.items() if value},
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
