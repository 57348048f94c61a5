"""Writes `src/pykubelet/apiserver/openapi/generated/definitions.json.gz` from the published schemas of Kubernetes 1.34.

Run it with the development environment: `python tools/generate_openapi.py`. It reads the JSON schemas that the
`kubernetes-validate` package carries and turns the definitions of the groups we serve, and all they refer to, back
into the form in which an API server publishes them: plain types instead of nullable ones, no constants for
apiVersion and kind. The server makes its OpenAPI documents of them (`apiserver/openapi/builder.py`).
"""

import gzip
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/pykubelet/apiserver/openapi/generated/definitions.json.gz"
VERSION = "v1.34.0"

GROUPS = (
    "io.k8s.api.core.v1.",
    "io.k8s.api.admissionregistration.v1.",
    "io.k8s.api.apps.v1.",
    "io.k8s.api.authentication.v1.",
    "io.k8s.api.authorization.v1.",
    "io.k8s.api.autoscaling.v1.",
    "io.k8s.api.autoscaling.v2.",
    "io.k8s.api.batch.v1.",
    "io.k8s.api.certificates.v1.",
    "io.k8s.api.coordination.v1.",
    "io.k8s.api.discovery.v1.",
    "io.k8s.api.events.v1.",
    "io.k8s.api.flowcontrol.v1.",
    "io.k8s.api.networking.v1.",
    "io.k8s.api.node.v1.",
    "io.k8s.api.policy.v1.",
    "io.k8s.api.rbac.v1.",
    "io.k8s.api.resource.v1.",
    "io.k8s.api.scheduling.v1.",
    "io.k8s.api.storage.v1.",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
    "io.k8s.apimachinery.pkg.apis.meta.v1.",
)
# The package changes these two so that numbers validate; published, they are strings with a format.
REPLACED: dict[str, Any] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "description": "A quantity: a number with an optional suffix such as m, k, M, Ki, Mi.",
        "type": "string",
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "description": "An integer or a string.",
        "format": "int-or-string",
        "type": "string",
    },
}
# A long text about Go code that does not explain the field.
SHORTENED = {
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "RawExtension is used to hold extensions in external versions."
}


def plain(value: Any) -> Any:
    """A schema as it is published: not nullable, without constants, with references to `#/definitions/`."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key == "type" and isinstance(item, list):
            out[key] = next(kind for kind in item if kind != "null")
        elif key == "$ref" and isinstance(item, str):
            out[key] = item.replace("#/$defs/", "#/definitions/")
        elif key != "enum" or not is_type_constant(value):
            out[key] = plain(item)
    return out


def is_type_constant(schema: dict[str, Any]) -> bool:
    return str(schema.get("description", "")).startswith(
        ("APIVersion defines the versioned schema", "Kind is a string value")
    )


def references(value: Any) -> set[str]:
    return set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(value)))


def main() -> None:
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"{VERSION}-local"
    raw = json.loads((folder / "_definitions.json").read_text())["$defs"]
    every = {name: plain(body) for name, body in raw.items()} | REPLACED
    for name, description in SHORTENED.items():
        every[name]["description"] = description
    todo = [name for name in every if name.startswith(GROUPS)]
    found: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = every[name]
            todo += references(every[name])
    text = json.dumps(dict(sorted(found.items())), separators=(",", ":"), ensure_ascii=False)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    # No time stamp: the same input gives the same bytes.
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(found)} definitions, {len(text)} bytes, {TARGET.stat().st_size} compressed")


if __name__ == "__main__":
    main()
