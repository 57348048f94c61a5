"""Complaints about a change of a pod's status.

In: the pod after and before the change, both after `default_pod`. Out: every complaint, in the API server's order.

Upstream: ValidatePodStatusUpdate in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.names import (
    dns1123_subdomain_errors,
    group_id_errors,
    ip_errors,
    qualified_name_errors,
    user_id_errors,
)
from pykubelet.api.validation.field_errors import FieldError, Named, duplicate, each_invalid, forbidden, invalid
from pykubelet.api.validation.metadata_update import immutable_errors, metadata_update_errors
from pykubelet.api.validation.pod_annotations import pod_annotation_changes_errors
from pykubelet.api.wire import Document

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE = "must be a non-negative integer"
_STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def pod_status_update_errors(new: Document, old: Document) -> list[FieldError]:
    """What is wrong with an update of a pod's status."""
    status, before, spec = new["status"], old["status"], old["spec"]
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    errors += pod_annotation_changes_errors(new, old, "metadata.annotations")
    errors += _conditions_errors(status.get("conditions", ()))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        errors += each_invalid("status.nominatedNodeName", nominated, dns1123_subdomain_errors(nominated))
    if (generation := status.get("observedGeneration", 0)) < 0:
        errors.append(invalid("status.observedGeneration", generation, _NOT_NEGATIVE))
    quality = status.get("qosClass", "")
    errors += immutable_errors(quality, before.get("qosClass", ""), "status.qosClass", shown=Named(quality))
    for kind in _STATUS_LISTS:
        if kind in before:
            errors += _restart_errors(kind, status.get(kind, ()), before[kind], spec)
    errors += _claim_statuses_errors(status.get("resourceClaimStatuses", ()), spec.get("resourceClaims", ()))
    for kind in ("podIPs", "hostIPs"):
        if kind in status:
            errors += _addresses_errors(kind, status, before)
    for kind in _STATUS_LISTS:
        errors += _users_errors(status.get(kind, ()), spec.get("os", {}).get("name", "linux"), f"status.{kind}")
    return errors


def _conditions_errors(conditions: Sequence[Document]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        if (generation := condition.get("observedGeneration", 0)) < 0:
            errors.append(invalid(f"status.conditions[{index}].observedGeneration", generation, _NOT_NEGATIVE))
        kind = condition["type"]
        if kind not in _SYSTEM_CONDITIONS and (details := qualified_name_errors(kind)):
            errors += each_invalid(f"status.conditions[{index}].Type", kind, details)
    return errors


def _restart_errors(kind: str, new: Sequence[Document], old: Sequence[Document], spec: Document) -> list[FieldError]:
    """Whether containers that have ended for good run again."""
    policy = spec.get("restartPolicy") if kind != "ephemeralContainerStatuses" else "Never"
    if policy == "Always":
        return []
    sidecars = {each["name"] for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"}
    revived = {each["name"] for each in new if "terminated" not in each["state"]}
    return [
        forbidden(f"status.{kind}[{index}].state", "may not be transitioned to non-terminated state")
        for index, status in enumerate(old)
        if status["name"] in revived
        and "terminated" in status["state"]
        and not (policy == "OnFailure" and status["state"]["terminated"]["exitCode"])
        and not (kind == "initContainerStatuses" and status["name"] in sidecars)
    ]


def _claim_statuses_errors(statuses: Sequence[Document], claims: Sequence[Document]) -> list[FieldError]:
    errors: list[FieldError] = []
    known, seen = {claim["name"] for claim in claims}, set[str]()
    for index, status in enumerate(statuses):
        at, name = f"status.resourceClaimStatuses[{index}].name", status["name"]
        if name not in known:
            errors.append(invalid(at, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
        if (claim := status.get("resourceClaimName")) is not None:
            errors += each_invalid(at, Named(claim), dns1123_subdomain_errors(claim))
    return errors


def _addresses_errors(kind: str, status: Document, before: Document) -> list[FieldError]:
    """Complaints about the addresses of the pod or of its node; bad ones that were there already may stay."""
    at = f"status.{kind}"
    addresses, old = ([each["ip"] for each in side.get(kind, ())] for side in (status, before))
    errors: list[FieldError] = []
    if kind == "hostIPs" and addresses and addresses[0] != status.get("hostIP", ""):
        errors.append(invalid(f"{at}[0].ip", addresses[0], "must be equal to `hostIP`"))
    for index, address in enumerate(addresses):
        if address not in old:
            errors += each_invalid(f"{at}[{index}]", address, ip_errors(address))
    is_pair = len(addresses) == 2 and (":" in addresses[0]) != (":" in addresses[1])
    if len(addresses) > 1 and not is_pair:
        shown = [{"IP": address} for address in addresses]
        errors.append(invalid(at, shown, "may specify no more than one IP for each IP family"))
    return errors


def _users_errors(statuses: Sequence[Document], system: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, status in enumerate(statuses):
        user = status.get("user", {}).get("linux") if "user" in status else None
        if user is None:
            continue
        at = f"{path}[{index}].user.linux"
        if system == "windows":
            errors.append(forbidden(at, "cannot be set for a windows pod"))
        elif system == "linux":
            errors += each_invalid(f"{at}.uid", user["uid"], user_id_errors(user["uid"]))
            errors += each_invalid(f"{at}.gid", user["gid"], group_id_errors(user["gid"]))
            for number, group in enumerate(user.get("supplementalGroups", ())):
                errors += each_invalid(f"{at}.supplementalGroups[{number}]", group, group_id_errors(group))
    return errors
