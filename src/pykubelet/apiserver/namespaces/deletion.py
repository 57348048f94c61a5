"""What a deletion does to a namespace: it is emptied first, by those whom `spec.finalizers` names.

In: the options of the request and the namespace. Out: a `Verdict`, as for any other object.

Upstream: pkg/registry/core/namespace/storage/storage.go (Delete)
"""

from datetime import datetime

from pykubelet.api.times import format_time
from pykubelet.api.validation.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pykubelet.api.wire import Document
from pykubelet.apiserver.failures import conflict
from pykubelet.apiserver.objects.deletion import DeleteOptions, Verdict, check_preconditions, verdict
from pykubelet.apiserver.objects.object_metadata import with_metadata
from pykubelet.apiserver.served import Served


def namespace_verdict(options: DeleteOptions, namespace: Document, served: Served, now: datetime) -> Verdict:
    """What becomes of a namespace."""
    metadata = namespace["metadata"]
    for name, asked, current in (
        ("UID", options.uid, metadata["uid"]),
        ("ResourceVersion", options.resource_version, metadata["resourceVersion"]),
    ):
        if asked is not None and asked != current:
            why = f"Precondition failed: {name} in precondition: {asked}, {name} in object meta: {current}"
            raise conflict(served.resource, metadata["name"], why)
    if metadata.get("deletionTimestamp") is None:
        return Verdict("mark", _ending(options, namespace, now))
    if namespace.get("spec", {}).get("finalizers"):
        return Verdict("keep", namespace)
    check_preconditions(options, namespace, served)
    return verdict(options, namespace, served, now)


def _ending(options: DeleteOptions, namespace: Document, now: datetime) -> Document:
    finalizers: list[str] = namespace["metadata"].get("finalizers", [])
    wanted = {
        ORPHAN_FINALIZER: _is_wanted(options, finalizers, ORPHAN_FINALIZER, "Orphan", when=True),
        FOREGROUND_FINALIZER: _is_wanted(options, finalizers, FOREGROUND_FINALIZER, "Foreground", when=False),
    }
    kept = [name for name in finalizers if wanted.get(name, True)]
    kept += [name for name, is_wanted in wanted.items() if is_wanted and name not in kept]
    ending = with_metadata(namespace, deletionTimestamp=format_time(now), finalizers=kept or None)
    return {**ending, "status": {**namespace.get("status", {}), "phase": "Terminating"}}


def _is_wanted(options: DeleteOptions, finalizers: list[str], name: str, policy: str, *, when: bool) -> bool:
    if options.orphan_dependents is not None:
        return options.orphan_dependents is when
    return options.policy == policy if options.policy is not None else name in finalizers
