"""Figures of the service proxy as JSON: how soon a changed endpoint gets traffic, and what each change costs.

Runs in network namespaces of its own, as root; the API is in memory, so that only the proxy and the kernel are
measured. One endpoint of many is replaced, and the change counts as written when its transaction has ended: from then
on the kernel sends new connections to it.
"""

import argparse
import json
import resource
from threading import Event
from time import perf_counter
from typing import Any

from machine import machine
from spread import spread

from network_lab import Namespace
from proxy_rig import ProxyRig, endpoint_slice, service

CALM_SECONDS = 0.1
SLICE = 100
"""Endpoints in a slice, as the controller makes them."""


def cpu_seconds() -> float:
    """The CPU time of this process and of the runs of nft that ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def address(number: int) -> str:
    return f"10.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"


def of_endpoints(count: int, changes: int) -> dict[str, Any]:
    """Replace one endpoint of many, several times."""
    place = Namespace()
    try:
        slices = [
            endpoint_slice(*map(address, range(start, min(start + SLICE, count))), name=f"web-{start}")
            for start in range(0, count, SLICE)
        ]
        began = perf_counter()
        rig = ProxyRig(place).start(service(), *slices)
        started, seconds = perf_counter() - began, []
        cpu, fresh = cpu_seconds(), ""
        for number in range(changes):
            fresh = f"172.16.{number // 250}.{1 + number % 250}"
            # A change that finds the proxy at rest; in a storm changes are gathered.
            Event().wait(CALM_SECONDS)
            at, before = perf_counter(), rig.transactions
            rig.put(endpoint_slice(fresh, *map(address, range(1, min(SLICE, count))), name="web-0"))
            rig.until_transaction(before)
            seconds.append(perf_counter() - at)
        used = cpu_seconds() - cpu
        assert f"{fresh} . 8080" in place.run("nft", "list", "ruleset")
        rig.stop()
        return {
            "started_s": round(started, 3),
            "written_s": spread(seconds),
            "cpu_ms_per_change": round(1000 * used / changes, 2),
        }
    finally:
        place.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoints", default="10,10000", help="numbers of endpoints, with commas between them")
    parser.add_argument("--changes", type=int, default=50)
    asked = parser.parse_args()
    figures = {
        f"endpoints_{count}": of_endpoints(count, asked.changes) for count in map(int, asked.endpoints.split(","))
    }
    print(json.dumps({"machine": machine(), **figures}, indent=2))


if __name__ == "__main__":
    main()
