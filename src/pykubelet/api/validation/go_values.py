"""Bad values that are whole objects, as Go's internal types would be written.

The API server complains about its internal types, which have Go's field names and write every field. Documents have
wire names and leave out what is empty; these functions translate the few objects that appear in messages.

Upstream: pkg/apis/core/types.go
"""

from typing import Any

from pykubelet.api.wire import Document

# Each field: Go's name, the wire's name, what stands for absent, and the fields of an object in it.
_Fields = tuple[tuple[str, str, Any, "_Fields | None"], ...]

_PROFILE: _Fields = (("Type", "type", "", None), ("LocalhostProfile", "localhostProfile", None, None))
_SELINUX: _Fields = tuple((name.capitalize(), name, "", None) for name in ("user", "role", "type", "level"))
_WINDOWS: _Fields = (
    ("GMSACredentialSpecName", "gmsaCredentialSpecName", None, None),
    ("GMSACredentialSpec", "gmsaCredentialSpec", None, None),
    ("RunAsUserName", "runAsUserName", None, None),
    ("HostProcess", "hostProcess", None, None),
)
_SECURITY_CONTEXT: _Fields = (
    ("Capabilities", "capabilities", None, (("Add", "add", None, None), ("Drop", "drop", None, None))),
    ("Privileged", "privileged", None, None),
    ("SELinuxOptions", "seLinuxOptions", None, _SELINUX),
    ("WindowsOptions", "windowsOptions", None, _WINDOWS),
    ("RunAsUser", "runAsUser", None, None),
    ("RunAsGroup", "runAsGroup", None, None),
    ("RunAsNonRoot", "runAsNonRoot", None, None),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", None, None),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", None, None),
    ("ProcMount", "procMount", None, None),
    ("SeccompProfile", "seccompProfile", None, _PROFILE),
    ("AppArmorProfile", "appArmorProfile", None, _PROFILE),
)
_RESOURCE_CLAIM: _Fields = (
    ("Name", "name", "", None),
    ("ResourceClaimName", "resourceClaimName", None, None),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName", None, None),
)
_TRUST_BUNDLE: _Fields = (
    ("Name", "name", None, None),
    ("SignerName", "signerName", None, None),
    ("LabelSelector", "labelSelector", None, None),
    ("Optional", "optional", None, None),
    ("Path", "path", "", None),
)
_RESIZE_POLICY: _Fields = (("ResourceName", "resourceName", "", None), ("RestartPolicy", "restartPolicy", "", None))


def profile_value(profile: Document) -> Document:
    """A seccomp or AppArmor profile."""
    return _internal(profile, _PROFILE)


def security_context_value(context: Document) -> Document:
    """The security context of a container."""
    return _internal(context, _SECURITY_CONTEXT)


def resource_claim_value(claim: Document) -> Document:
    """One of a pod's resource claims."""
    return _internal(claim, _RESOURCE_CLAIM)


def trust_bundle_value(projection: Document) -> Document:
    """The projection of a cluster trust bundle."""
    return _internal(projection, _TRUST_BUNDLE)


def resize_policies_value(policies: list[Document]) -> list[Document]:
    """The resize policies of a container."""
    return [_internal(policy, _RESIZE_POLICY) for policy in policies]


def _internal(document: Document, fields: _Fields) -> Document:
    return {
        go_name: _internal(document[wire_name], nested)
        if nested is not None and wire_name in document
        else document.get(wire_name, absent)
        for go_name, wire_name, absent, nested in fields
    }
