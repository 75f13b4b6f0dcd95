"""videorl plan: what a run will need, before anything is started."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videorl.cli.train import ConfigFile, Overrides

if TYPE_CHECKING:
    from videorl.config import Config

_EFFICIENCY = 0.4  # of a device's peak, which well-fed large matrix products reach


def plan(
    config_file: ConfigFile,
    overrides: Overrides = None,
    response_tokens: Annotated[int, typer.Option(min=1, help="Mean length of a response to reckon with.")] = 92,
    device_gib: Annotated[float, typer.Option(min=1, help="Memory of one GPU.")] = 80.0,
    peak_tflops: Annotated[float, typer.Option(min=0.1, help="bfloat16 peak of one GPU; 989 is an H100's.")] = 989.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print what a run will need: derived numbers, place, memory of a GPU, work and GPU-seconds of a fit step.

    Work and memory are estimates by the formulas of videorl.cli.estimate, from the model's config.json where it is
    present; a video counts with the sampling's largest number and size of frames.
    """
    from videorl.config import load_config

    config = load_config(config_file, overrides or [])
    document: dict[str, Any] = {"derived": config.derived, "placement": placement(config)}
    document |= _estimates(config, response_tokens, device_gib, peak_tflops)
    typer.echo(json.dumps(document, indent=2) if as_json else "\n".join(_lines(document)))


def placement(config: Config) -> list[dict[str, int]]:
    """What each node holds: trainer ranks fill nodes from the first on, rollout devices follow (or share them)."""
    cluster = config.cluster
    roles = ["trainer_ranks"] * cluster.trainer_ranks
    rollout = ["rollout_devices"] * cluster.rollout_devices
    size = cluster.devices_per_node
    nodes: list[Counter[str]] = [Counter() for _ in range(cluster.nodes)]
    for device, role in enumerate(roles):
        nodes[device // size][role] += 1
    for device, role in enumerate(rollout, start=0 if cluster.share_devices else len(roles)):
        nodes[device // size][role] += 1
    return [{"node": index, **node} for index, node in enumerate(nodes)]


def _estimates(config: Config, response_tokens: int, device_gib: float, peak_tflops: float) -> dict[str, Any]:
    from videorl.cli.estimate import memory_of_a_device, work_of_a_step
    from videorl.cli.model_shape import ModelShape

    if not (config.model.path / "config.json").is_file():
        return {"missing": f"{config.model.path}/config.json: not there, so no work and memory of the model"}
    shape = ModelShape.of_folder(config.model.path)
    work = work_of_a_step(config, shape, min(response_tokens, config.rollout.max_response_tokens))
    document: dict[str, Any] = {
        "model": {"parameters": shape.parameters, "text": shape.text.parameters, "vision": shape.vision.parameters},
        "work": asdict(work) | {"separate_over_shared": work.separate / work.training},
    }
    if config.cluster.device == "cpu":
        return document
    memory = memory_of_a_device(config, shape, device_gib)
    pace = peak_tflops * 1e12 * _EFFICIENCY
    return document | {
        "memory_gib": asdict(memory) | {"trainer": memory.trainer, "rollout": memory.rollout, "device": device_gib},
        "seconds": {
            "training_gpu": work.training / pace,
            "training": work.training / pace / config.cluster.trainer_ranks,
            "rollout_gpu": work.rollout / pace,
            "rollout": work.rollout / pace / config.cluster.rollout_devices,
            "peak_tflops": peak_tflops,
            "efficiency": _EFFICIENCY,
        },
    }


def _lines(document: dict[str, Any]) -> Iterator[str]:
    for name, value in document["derived"].items():
        yield f"{name.replace('_', ' '):<24}{value:>12,}"
    yield ""
    for node in document["placement"]:
        held = ", ".join(f"{count} {role.replace('_', ' ')}" for role, count in node.items() if role != "node")
        yield f"node {node['node']:<19}{held or 'nothing'}"
    yield ""
    if "missing" in document:
        yield document["missing"]
        return
    yield from _model_lines(document)


def _model_lines(document: dict[str, Any]) -> Iterator[str]:
    model, work = document["model"], document["work"]
    sizes = f"{model['parameters']:,} parameters in matrices (text {model['text']:,}, vision {model['vision']:,})"
    yield f"model                   {sizes}"
    yield f"a prompt and a response {work['prompt_tokens']:,} and {work['response_tokens']:,} tokens"
    yield (
        f"work of a fit step      training {work['training']:.3g} FLOP (n separate sequences would take "
        f"{work['separate_over_shared']:.1f} times as much), rollout {work['rollout']:.3g} FLOP"
    )
    if "memory_gib" in document:
        yield from _gpu_lines(document["memory_gib"], document["seconds"])


def _gpu_lines(memory: dict[str, Any], seconds: dict[str, Any]) -> Iterator[str]:
    yield (
        f"trainer rank, GiB       {memory['trainer']:.1f} of {memory['device']:.0f}: "
        f"state {memory['trainer_state']:.1f}, gathered {memory['trainer_unit']:.1f}, "
        f"activations {memory['trainer_activations']:.1f}"
    )
    yield (
        f"rollout device, GiB     {memory['rollout']:.1f} of {memory['device']:.0f}: "
        f"weights {memory['rollout_weights']:.1f}, cache {memory['rollout_cache']:.1f} "
        f"({memory['cache_tokens']:,} tokens a replica)"
    )
    yield (
        f"at {seconds['efficiency']:.0%} of {seconds['peak_tflops']:.0f} TFLOPS    "
        f"training {seconds['training_gpu']:.3g} GPU-s, {seconds['training']:.3g} s on its ranks; "
        f"rollout {seconds['rollout_gpu']:.3g} GPU-s, {seconds['rollout']:.3g} s on its devices"
    )
