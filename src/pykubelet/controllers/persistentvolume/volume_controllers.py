"""Composes the controllers of persistent volumes, which share an index of the pods of each claim.

Upstream: cmd/kube-controller-manager/app/core.go
"""

from collections.abc import Callable

from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import EventRecorder
from pykubelet.controllers.framework.work_queue import KeyedController
from pykubelet.controllers.persistentvolume.ephemeral_controller import EphemeralVolumeController
from pykubelet.controllers.persistentvolume.local_provisioner import PROVISIONER, LocalProvisioner, LocalVolumes
from pykubelet.controllers.persistentvolume.protection import ClaimProtectionController, VolumeProtectionController
from pykubelet.controllers.persistentvolume.pv_controller import SOURCE, PersistentVolumeController
from pykubelet.controllers.persistentvolume.volume_index import PodsByClaim


def volume_controllers(
    *,
    client: Client,
    recorder_of: Callable[[str], EventRecorder],
    informers: Informers,
    local_volumes: LocalVolumes | None,
) -> dict[str, KeyedController]:
    """The controllers by name. Without `local_volumes` none provisions volumes."""
    claims, volumes = informers.objects(PERSISTENT_VOLUME_CLAIMS), informers.objects(PERSISTENT_VOLUMES)
    pods = PodsByClaim()
    # Before its users, so that they find in it what their handlers get.
    pods.listen(informers)
    made: dict[str, KeyedController] = {
        "persistentvolume-binder": PersistentVolumeController(
            client=client,
            recorder=recorder_of(SOURCE),
            claims=claims,
            volumes=volumes,
            classes=informers.objects(STORAGE_CLASSES),
            pods=pods,
        ),
        "persistentvolumeclaim-protection": ClaimProtectionController(client=client, claims=claims, pods=pods),
        "persistentvolume-protection": VolumeProtectionController(client=client, volumes=volumes),
        "ephemeral-volume": EphemeralVolumeController(
            client=client, recorder=recorder_of("ephemeral_volume"), pods=informers.pods, claims=claims
        ),
    }
    if local_volumes is not None:
        made["local-provisioner"] = LocalProvisioner(
            client=client,
            recorder=recorder_of(PROVISIONER),
            informers=informers,
            pods=pods,
            local_volumes=local_volumes,
        )
    return made
