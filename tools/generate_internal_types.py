"""Writes `src/pykubelet/api/generated/internal_types.json`: the fields of Kubernetes' internal types.

Run it with the root of a Kubernetes 1.34 source tree: `python tools/generate_internal_types.py kubernetes/`. The API
server shows bad values that are whole objects as Go writes its internal types, which have Go's names and order and
write every field. The order and kind of fields come from pkg/apis/*/types.go, their names on the wire from
staging/src/k8s.io/api. Only what can be reached from `ROOTS` is written.

A field is `[shown name, name on the wire, type]`. A type is a scalar (`string`, `integer`, `boolean`, `time`,
`quantity`, `int-or-string`, `any`), another type of the table, or one of both after `*` (pointer), `[]` or `{}`
(which are null when absent); `=` before it means that its fields stand among those of the holder, and `?` that the
field is left out when empty.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/pykubelet/api/generated/internal_types.json"

ROOTS = [
    "core.PersistentVolumeSource",
    "core.PodTemplateSpec",
    "core.Toleration",
    "core.VolumeNodeAffinity",
    "apps.DaemonSetUpdateStrategy",
    "apps.DeploymentStrategy",
    "apps.StatefulSetUpdateStrategy",
    "batch.PodFailurePolicy",
    "batch.SuccessPolicy",
    "batch.UncountedTerminatedPods",
    "meta.LabelSelector",
    "policy.PodDisruptionBudgetSpec",
    "rbac.RoleRef",
]
# Import names of packages in the sources, where they differ from the names used here.
PACKAGES = {"api": "core", "metav1": "meta"}
SCALARS = {
    "string": "string",
    "bool": "boolean",
    "int": "integer",
    "int32": "integer",
    "int64": "integer",
    "types.UID": "string",
    "meta.Time": "time",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "int-or-string",
    "meta.FieldsV1": "any",
}
META = "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go"
FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)(?:\s+`([^`]*)`)?$")

Field = tuple[str, str, str]  # name (empty if embedded), type, JSON tag


class Package:
    """The structs of a package and the types that are scalars or lists under another name."""

    def __init__(self, source: Path) -> None:
        text = source.read_text()
        self.structs: dict[str, list[Field]] = {}
        self.aliases: dict[str, str] = dict(re.findall(r"^type (\w+) ([\w.*\[\]]+)$", text, re.MULTILINE))
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            self.structs[name] = [field for line in body.splitlines() if (field := _field(line))]


def _field(line: str) -> Field | None:
    match = FIELD.match(re.sub(r"\s*//.*", "", line).rstrip())
    if match is None:
        return None
    name, kind, tags = match.groups(default="")
    tag = re.search(r'json:"([^"]*)"', tags)
    return name, kind, tag[1] if tag else ""


class Table:
    """Collects the requested types and all types that they contain."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packages: dict[str, tuple[Package, Package | None]] = {}
        self.types: dict[str, list[list[str]]] = {}

    def package(self, name: str) -> tuple[Package, Package | None]:
        if name not in self._packages:
            self._packages[name] = (
                (Package(self._root / META), None)
                if name == "meta"
                else (
                    Package(self._root / f"pkg/apis/{name}/types.go"),
                    Package(self._root / f"staging/src/k8s.io/api/{name}/v1/types.go"),
                )
            )
        return self._packages[name]

    def add(self, full_name: str) -> None:
        if full_name in self.types:
            return
        package, name = full_name.split(".")
        own, published = self.package(package)
        self.types[full_name] = []
        for field, kind, tag in own.structs[name]:
            written = self.written(kind, package)
            shown, _, options = tag.partition(",")
            if not field:
                self.types[full_name].append(["", "", f"={written}"])
            elif published is None:
                self.types[full_name].append([shown, shown, f"?{written}" if "omit" in options else written])
            else:
                self.types[full_name].append([field, _wire_name(published, name, field), written])

    def written(self, kind: str, package: str) -> str:
        """The type in the notation of the table; types that it names are added to the table."""
        if kind == "[]byte":
            return "*string"
        if kind.startswith("*"):
            return f"*{self.written(kind[1:], package)}"
        if kind.startswith("[]"):
            return f"[]{self.written(kind[2:], package)}"
        if match := re.fullmatch(r"map\[[\w.]+\](.*)", kind):
            return f"{{}}{self.written(match[1], package)}"
        if kind in SCALARS:
            return SCALARS[kind]
        holder, _, name = kind.rpartition(".")
        holder = PACKAGES.get(holder, holder) or package
        if f"{holder}.{name}" in SCALARS:
            return SCALARS[f"{holder}.{name}"]
        if name in self.package(holder)[0].aliases:
            return self.written(self.package(holder)[0].aliases[name], holder)
        self.add(f"{holder}.{name}")
        return f"{holder}.{name}"


def _wire_name(published: Package, name: str, field: str) -> str:
    """The field's name on the wire; some fields of a pod's security context are in the pod's spec there."""
    for struct in (name, "PodSpec"):
        for known, _, tag in published.structs.get(struct, ()):
            if known == field:
                return tag.partition(",")[0]
    message = f"{name}.{field} has no published name"
    raise LookupError(message)


def main() -> None:
    table = Table(Path(sys.argv[1]))
    for root in ROOTS:
        table.add(root)
    lines = [
        f"{json.dumps(name)}: {json.dumps(table.types[name], separators=(',', ':'))}" for name in sorted(table.types)
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
