"""What can be known to be wrong before anything expensive starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from videorl.cli.model_shape import ModelShape, read_model_config
from videorl.config import Config
from videorl.data.rows import expand
from videorl.data.templates import template_named
from videorl.data.torchcodec_pictures import require_torchcodec
from videorl.errors import UserError
from videorl.rewards.load import load_reward

_GIB = 1024**3


def check(config: Config) -> None:
    """Look at everything that the run will need.

    Raises:
        UserError: the first thing that is missing or wrong, in one line.
    """
    _check_model(config.model.path)
    if config.data.decoder == "torchcodec":
        require_torchcodec()
    expand(config.data.train)
    for name, path in config.eval.benchmarks.items():
        if not path.exists():
            raise UserError(f"eval.benchmarks {name}: {path}: no such file")
    load_reward(config.reward)
    template_named(config.data.prompt, config.reward.name)
    _check_space(config)
    _check_devices(config)


def _check_model(folder: Path) -> None:
    read_model_config(folder)
    ModelShape.of_folder(folder)
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"model.path {folder}: holds no *.safetensors; convert the weights to safetensors")
    for wanted in (("tokenizer.json", "vocab.json"), ("preprocessor_config.json", "processor_config.json")):
        if not any((folder / name).is_file() for name in wanted):
            raise UserError(f"model.path {folder}: holds no {' and no '.join(wanted)}; download the whole model")


def _check_space(config: Config) -> None:
    """A checkpoint is weight and two moments in fp32, and a model folder; two staged versions lie in shared memory."""
    parameters = ModelShape.of_folder(config.model.path).parameters
    for key, place, needed in _needs(config, parameters):
        free = shutil.disk_usage(_existing(place)).free
        if free < needed:
            raise UserError(
                f"{key} {place}: {free / _GIB:.1f} GiB free, at least {needed / _GIB:.1f} are needed: "
                f"free some, or choose another place"
            )


def _needs(config: Config, parameters: int) -> Iterator[tuple[str, Path, int]]:
    yield "run.dir", config.run.dir, 16 * parameters
    if config.cluster.weight_transport != "nccl" and config.cluster.nodes == 1:
        yield "/dev/shm", Path("/dev/shm"), 2 * 4 * parameters


def _check_devices(config: Config) -> None:
    cluster = config.cluster
    if cluster.device == "cpu" or cluster.address is not None or cluster.nodes > 1:
        return  # Ray counts what a cluster has
    import torch

    have = torch.cuda.device_count()
    wanted = max(cluster.trainer_ranks, cluster.rollout_devices)
    if not cluster.share_devices:
        wanted = cluster.trainer_ranks + cluster.rollout_devices
    if have == 0 and cluster.device == "gpu":
        raise UserError('cluster.device = "gpu": torch sees no GPU here; set cluster.device=cpu or look at its driver')
    if 0 < have < wanted:
        raise UserError(
            f"cluster: {cluster.trainer_ranks} trainer ranks and {cluster.rollout_devices} rollout devices need "
            f"{wanted} GPUs, torch sees {have}; lower them or set cluster.share_devices"
        )


def _existing(path: Path) -> Path:
    """The nearest folder that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
