"""Where processes run: a Ray cluster and one placement group, trainer ranks first.

    bundle 0 … r-1            one trainer rank each          packed: neighbours share a machine
    bundle r … r+replicas-1   one replica each               a replica's devices are on one machine

On CPU a "device" is a place for one process; several share a core on a small machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import ray
import torch
from ray._private import ray_constants
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from videorl.config.schema import ClusterConfig
from videorl.errors import UserError, VideorlError

Device = Literal["cpu", "gpu"]

PLACEMENT_TIMEOUT = 300.0  # seconds until all bundles must be reserved
_OBJECT_STORE_BYTES = 512 << 20  # what travels through it is ids and numbers

# Every process that is started here: nothing talks to the world, and threads don't spin on a shared core.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
_CPU_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

# All processes on this machine: nothing listens where another machine could reach it. The first name makes Ray take
# 127.0.0.1 for the node's address, which it otherwise replaces by one that other machines reach.
_LOOPBACK_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def resolve_device(setting: Literal["auto", "cpu", "gpu"]) -> Device:
    """`cluster.device` on this machine."""
    if setting == "auto":
        return "gpu" if torch.cuda.is_available() else "cpu"
    return setting


@dataclass(slots=True, frozen=True)
class Placement:
    """Reserved places. Made by `placed`; read by whoever starts actors."""

    group: PlacementGroup
    device: Device
    loopback: bool  # all on this machine: talk over 127.0.0.1
    environment: Mapping[str, str]

    def actor(self, kind: type, bundle: int, devices: float) -> Any:
        """`kind` as a Ray actor class in bundle `bundle`, with that many of its devices."""
        resources: dict[str, float] = {"num_gpus": devices} if self.device == "gpu" else {"num_cpus": devices}
        return ray.remote(kind).options(
            **resources,
            scheduling_strategy=PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=bundle),
            runtime_env={"env_vars": dict(self.environment)},
            max_restarts=0,
        )


@contextmanager
def placed(cluster: ClusterConfig, bundles: Sequence[float]) -> Iterator[Placement]:
    """A Ray cluster with `bundles[i]` devices reserved for bundle i, and everything ended on leaving.

    Raises:
        UserError: `cluster.address` does not answer.
        VideorlError: the devices could not be reserved.
    """
    device = resolve_device(cluster.device)
    environment = _ENVIRONMENT | (_CPU_ENVIRONMENT if device == "cpu" else {})
    loopback = cluster.address is None
    if loopback:
        environment |= _LOOPBACK_ENVIRONMENT
    os.environ |= {name: value for name, value in environment.items() if name not in os.environ}
    _start_ray(cluster, device, sum(bundles))
    try:
        unit = "GPU" if device == "gpu" else "CPU"
        group = placement_group([{unit: amount} for amount in bundles], strategy="PACK")
        if not group.wait(PLACEMENT_TIMEOUT):
            raise VideorlError(
                f"cluster: {sum(bundles):g} {unit}s could not be reserved within {PLACEMENT_TIMEOUT:g} s; "
                f"Ray has {ray.cluster_resources().get(unit, 0):g}"
            )
        yield Placement(group, device, loopback, environment)
    finally:
        ray.shutdown()


def _start_ray(cluster: ClusterConfig, device: Device, devices: float) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if cluster.address is not None:
        try:
            ray.init(address=cluster.address, **options)
        except (ConnectionError, ValueError) as error:
            raise UserError(f"cluster.address = {cluster.address!r}: {str(error).splitlines()[0]}") from None
        return
    ray_constants.ENABLE_RAY_CLUSTER = False  # what the environment's name says to processes that start later
    if device == "cpu":
        options["num_cpus"] = max(devices, 1)
    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE_BYTES,
        _node_ip_address="127.0.0.1",
        **options,
    )
