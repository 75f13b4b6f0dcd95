"""A check and a preparation as JSON documents, as lines for a terminal, and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from videorl.data.check import Check
from videorl.data.prepare import Filled
from videorl.data.questions import FileReport
from videorl.errors import UserError, unwritten

_BINS = 10
_BAR = 40  # characters of the longest bar


def files_document(files: Sequence[FileReport]) -> dict[str, Any]:
    """`files` and `totals`: rows read, kept and dropped by reason."""
    dropped: Counter[str] = sum((report.dropped for report in files), Counter())
    return {
        "files": [
            {
                "path": str(report.path),
                "format": report.format,
                "read": report.read,
                "kept": report.kept,
                "dropped": dict(report.dropped),
                "examples": report.examples,
            }
            for report in files
        ],
        "totals": {
            "read": sum(report.read for report in files),
            "kept": sum(report.kept for report in files),
            "dropped": dict(dropped),
        },
    }


def check_document(check: Check, max_prompt_tokens: int) -> dict[str, Any]:
    """Everything that `videorl data check --json` prints."""
    tokens = check.prompt_tokens
    over = sum(count > max_prompt_tokens for count in tokens)
    media = check.media
    return files_document(check.files) | {
        "media": {
            "distinct": media.distinct,
            "opened": media.opened,
            "problems": dict(media.problems),
            "examples": media.examples,
            "warnings": media.warnings,
            "rows_without": media.rows_without,
        },
        "repeated": check.repeated,
        "positions": {str(options): dict(sorted(letters.items())) for options, letters in check.positions.items()},
        "overlaps": [
            {"path": str(o.path), "by_question": o.by_question, "by_video": o.by_video} for o in check.overlaps
        ],
        "prompt_tokens": {
            "exact": check.exact,
            "limit": max_prompt_tokens,
            "over": over,
            "share_over": over / len(tokens),
            "histogram": _histogram(tokens),
        }
        if tokens
        else None,
        "frames": {"histogram": _histogram(check.frames)} if check.frames else None,
    }


def prepared_document(files: Sequence[FileReport], filled: Filled, written: Mapping[str, int] | None) -> dict[str, Any]:
    """Everything that `videorl data prepare --json` prints."""
    return files_document(files) | {
        "media": {
            "distinct": filled.media,
            "kept": filled.kept,
            "dropped": dict(filled.dropped),
            "warnings": filled.warnings,
        },
        "pixel_bytes": filled.pixel_bytes,
        "seconds": round(filled.seconds, 3),
        "questions": dict(written) if written is not None else None,
    }


def show_files(document: Mapping[str, Any]) -> list[str]:
    """One line for each file and each reason."""
    lines = []
    for file in document["files"]:
        lines.append(f"{file['path']} ({file['format']}): {file['read']} rows read, {file['kept']} kept")
        for reason, count in sorted(file["dropped"].items(), key=lambda item: -item[1]):
            lines.append(f"  {count} dropped: {reason}")
            lines += [f"    {example}" for example in file["examples"].get(reason, [])]
    return lines


def show_check(document: Mapping[str, Any]) -> str:
    """The document for a terminal."""
    media = document["media"]
    lines = show_files(document)
    lines.append(f"{media['distinct']} videos{'' if media['opened'] else ' (not opened; --videos opens them)'}")
    for reason, count in media["problems"].items():
        lines.append(f"  {count}: {reason}")
        lines += [f"    {example}" for example in media["examples"][reason]]
    lines += [f"  warning: {warning}" for warning in media["warnings"]]
    if media["rows_without"]:
        lines.append(f"  {media['rows_without']} questions would be dropped for their video")
    lines.append(f"{document['repeated']} questions repeat an earlier one under another id")
    for overlap in document["overlaps"]:
        shared = f"{overlap['by_question']} questions and {overlap['by_video']} by the video's name"
        lines.append(f"overlap with {overlap['path']}: {shared}")
    for options, letters in document["positions"].items():
        total = sum(letters.values())
        shares = ", ".join(f"{letter} {count / total:.0%}" for letter, count in letters.items())
        lines.append(f"right answers of {total} questions with {options} options: {shares}")
    if tokens := document["prompt_tokens"]:
        kind = "prompt tokens" if tokens["exact"] else "prompt tokens, at most (videos not opened)"
        lines += [kind, *_bars(tokens["histogram"])]
        lines.append(f"{tokens['over']} ({tokens['share_over']:.1%}) are longer than {tokens['limit']}")
    if frames := document["frames"]:
        lines += ["frames of a video", *_bars(frames["histogram"])]
    return "\n".join(lines)


def show_prepared(document: Mapping[str, Any]) -> str:
    """The document for a terminal."""
    media = document["media"]
    lines = show_files(document)
    gb = document["pixel_bytes"] / 1e9
    lines.append(
        f"{media['kept']} of {media['distinct']} videos ready, {gb:.3f} GB of pixels, {document['seconds']:.1f} s"
    )
    lines += [f"  {count} dropped: {reason}" for reason, count in media["dropped"].items()]
    lines += [f"  warning: {warning}" for warning in media["warnings"]]
    if document["questions"] is not None:
        lines.append("questions: " + ", ".join(f"{count} {what}" for what, count in document["questions"].items()))
    return "\n".join(lines)


def require_picture(path: Path) -> None:
    """Raises:
    UserError: no picture can be written under this name.
    """
    from matplotlib.figure import Figure

    kinds = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in ("", *kinds):  # without a suffix it becomes a png
        raise UserError(f"{path}: no kind of picture; known are {', '.join(kinds)}")
    if not path.parent.is_dir():
        raise UserError(f"{path}: cannot be written: {path.parent} is no folder")


def draw_check(check: Check, max_prompt_tokens: int, path: Path) -> None:
    """The histograms as a picture.

    Raises:
        UserError: there is nothing to draw, or it cannot be written there.
    """
    from matplotlib.figure import Figure

    drawn = [(check.prompt_tokens, "prompt tokens"), (check.frames, "frames of a video")]
    drawn = [(values, label) for values, label in drawn if values]
    if not drawn:
        raise UserError("--png: there is nothing to draw, for no question and no video is left")
    figure = Figure(figsize=(6 * len(drawn), 4), layout="constrained")
    for axis, (values, label) in zip(np.atleast_1d(figure.subplots(1, len(drawn))), drawn, strict=True):
        axis.hist(values, bins=40)
        axis.set(xlabel=label, ylabel="questions" if label == "prompt tokens" else "videos")
        if label == "prompt tokens" and max(values) > max_prompt_tokens / 2:
            axis.axvline(max_prompt_tokens, color="black", linestyle="--", label="limit")
            axis.legend()
    try:
        figure.savefig(path)
    except OSError as error:
        raise unwritten(path, error) from None


def _histogram(values: Sequence[int]) -> dict[str, list[float]]:
    counts, edges = np.histogram(values, bins=min(_BINS, max(1, max(values) - min(values))))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _bars(histogram: Mapping[str, Sequence[float]]) -> list[str]:
    edges, counts = histogram["edges"], histogram["counts"]
    most = max(counts)
    return [
        f"  {low:>9.0f} – {high:<9.0f} {'█' * round(_BAR * count / most)} {count:.0f}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
