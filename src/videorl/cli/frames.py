"""videorl frames: which frames of a video a model would see, when they are shown, and what they cost."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videorl.errors import QuestionDropped, UserError, unwritten

if TYPE_CHECKING:
    from PIL import Image

    from videorl.data.decoding import Facts
    from videorl.types import Frames, FrameSampling, Media

_SHEET_COLUMNS = 6
_CAPTION_HEIGHT = 20


def frames(
    video: Annotated[Path, typer.Argument(metavar="VIDEO", help="A video, an image or a folder of frames.")],
    max_frames: Annotated[int, typer.Option(min=2, help="The most frames.")] = 24,
    max_pixels: Annotated[int, typer.Option(min=1024, help="The largest area of a frame.")] = 100_000,
    fps: Annotated[float, typer.Option(min=0.001, help="Frames taken from a second.")] = 1.0,
    min_frames: Annotated[int, typer.Option(min=2, help="The fewest frames.")] = 2,
    start: Annotated[float | None, typer.Option(min=0, help="Begin here, in seconds.")] = None,
    end: Annotated[float | None, typer.Option(min=0, help="End here, in seconds.")] = None,
    timeout: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds that decoding may take.")] = 60.0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a contact sheet with the times there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show which frames are sampled, at what times, at what size, and how many tokens they are."""
    from videorl.types import FrameSampling, Media

    if max_frames % 2 or min_frames % 2 or min_frames > max_frames:
        raise UserError("--max-frames and --min-frames are even, and the least not above the most")
    if not video.exists():
        raise UserError(f"{video}: no such file")
    sampling = FrameSampling(fps, max_frames, min_frames, max_pixels=max_pixels)
    kind = "image" if video.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp", ".bmp") else "video"
    facts, decoded = _decode(Media(kind, str(video.absolute()), start, end), sampling, timeout)
    tree = _document(video, facts, decoded)
    if out is not None:
        tree["contact_sheet"] = str(_write_sheet(out, video, decoded))
    if as_json:
        typer.echo(json.dumps(tree, ensure_ascii=False))
    else:
        _show(tree)


def _decode(media: Media, sampling: FrameSampling, timeout: float) -> tuple[Facts, Frames]:
    from videorl.data.codecs import read_frames
    from videorl.data.pool import DecoderPool

    pool = DecoderPool(1, timeout)
    try:
        with TemporaryDirectory(prefix="videorl-frames-") as scratch:
            target = Path(scratch) / "frames"
            facts = pool.probe(media, sampling)
            pool.decode_to(target, media, sampling, "raw")
            return facts, read_frames(target)
    except QuestionDropped as dropped:
        raise UserError(dropped.drop.detail) from None
    finally:
        pool.close()


def _document(video: Path, facts: Facts, decoded: Frames) -> dict[str, Any]:
    from videorl.data.sampling import vision_tokens

    count, height, width, _ = decoded.pixels.shape
    return {
        "path": str(video),
        "width": width,
        "height": height,
        "indices": decoded.indices.tolist(),
        "timestamps": [round(time, 6) for time in decoded.timestamps.tolist()],
        "vision_tokens": vision_tokens(count, height, width),
        "total_frames": facts.total,
        "duration": round(facts.duration, 6),
        "codec": facts.codec,
        "warnings": list(decoded.warnings),
    }


def _show(tree: dict[str, Any]) -> None:
    typer.echo(f"{tree['path']}: {tree['total_frames']} frames of {tree['codec']}, {tree['duration']:.1f} s")
    pairs = len(tree["indices"]) // 2
    size = f"{tree['width']} x {tree['height']}"
    typer.echo(f"{len(tree['indices'])} frames of {size} in {pairs} pairs: {tree['vision_tokens']} vision tokens")
    typer.echo("  ".join(f"{i}@{t:.2f}s" for i, t in zip(tree["indices"], tree["timestamps"], strict=True)))
    for warning in tree["warnings"]:
        typer.echo(f"warning: {warning}")
    if "contact_sheet" in tree:
        typer.echo(tree["contact_sheet"])


def _write_sheet(folder: Path, video: Path, decoded: Frames) -> Path:
    """All frames in rows, each with its index and time under it."""
    from PIL import Image, ImageDraw

    count, height, width, _ = decoded.pixels.shape
    columns = min(_SHEET_COLUMNS, count)
    rows = -(-count // columns)
    sheet: Image.Image = Image.new("RGB", (columns * width, rows * (height + _CAPTION_HEIGHT)), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (picture, index, time) in enumerate(
        zip(decoded.pixels, decoded.indices, decoded.timestamps, strict=True)
    ):
        x, y = place % columns * width, place // columns * (height + _CAPTION_HEIGHT)
        sheet.paste(Image.fromarray(picture), (x, y))
        draw.text((x + 4, y + height + 4), f"frame {index}   {time:.3f} s", fill="black")
    path = folder / f"{video.stem}-frames.png"
    part = path.with_name(f"{path.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sheet.save(part, "PNG")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise unwritten(path, error) from None
    return path
