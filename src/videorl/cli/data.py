"""videorl data: what question files hold, filling the frame store from them, and looking after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videorl.errors import UserError, VideorlError

if TYPE_CHECKING:
    from videorl.config import Config
    from videorl.data.check import Opened, PromptLengths
    from videorl.data.prepare import Preparation

app = typer.Typer(help="Question files and the frame store.", no_args_is_help=True)
store_app = typer.Typer(help="What is in a frame store, and making room in it.", no_args_is_help=True)
app.add_typer(store_app, name="store")

Files = Annotated[list[Path], typer.Argument(metavar="FILE ...", help="Question files, globs or path@split.")]
Root = Annotated[Path | None, typer.Option("--media-root", metavar="DIR", help="Where relative media paths start.")]
Remap = Annotated[list[str] | None, typer.Option("--remap", metavar="OLD=NEW", help="A path prefix to replace.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="CONFIG.toml", help="A run's config: its sampling, prompt and store.")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY.SUB=VALUE", help="A setting, such as data.max_frames=64.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Store = Annotated[Path, typer.Argument(metavar="STORE", help="A frame store's folder.")]


@app.command()
def check(
    files: Files,
    media_root: Root = None,
    remap: Remap = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    against: Annotated[
        list[Path] | None, typer.Option("--against", metavar="FILE", help="Evaluation files to find overlap with.")
    ] = None,
    videos: Annotated[bool, typer.Option("--videos", help="Open every video.")] = False,
    model: Annotated[Path | None, typer.Option(metavar="DIR", help="A model folder, to count prompt tokens.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the histograms there.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a run would be trained on: rows kept and dropped with reasons, missing videos, lengths, overlap."""
    from videorl.data.check import check_questions
    from videorl.data.questions import read_questions
    from videorl.data.report import check_document, draw_check, require_picture, show_check

    resolved = _config(files, media_root, remap, config, overrides)
    data = resolved.data
    rows = read_questions(files, media_root=data.media_root, remap=data.remap, format=data.format)
    others = [(path, read_questions([path], media_root=data.media_root, remap=data.remap)) for path in against or []]
    folder = model or (resolved.model.path if config else None)
    if png is not None:
        require_picture(png)
        if folder is None and not videos:
            raise UserError("--png: there is nothing to draw; add --model DIR for prompt lengths, --videos for frames")
    with _opened(resolved) if videos else _unopened() as opened:
        result = check_questions(
            rows, data.frame_sampling, against=others, lengths=_lengths(resolved, folder), opened=opened
        )
    if png is not None:
        draw_check(result, data.max_prompt_tokens, png)
    document = check_document(result, data.max_prompt_tokens)
    typer.echo(json.dumps(document, ensure_ascii=False) if as_json else show_check(document))


@app.command()
def prepare(
    files: Files,
    media_root: Root = None,
    remap: Remap = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    store: Annotated[Path | None, typer.Option(metavar="DIR", help="The frame store; unset: the config's.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write the kept questions, and the drops beside it.")
    ] = None,
    blind_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Ask this model every question without its video.")
    ] = None,
    blind_attempts: Annotated[int, typer.Option(min=1, help="How often it answers each.")] = 4,
    blind_drop: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Drop questions with at least this share right; unset: only mark them."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fill the frame store ahead of a run. A second call goes on where the first was stopped."""
    from videorl.data.prepare import NormalisedFile, Preparation
    from videorl.data.questions import read_questions
    from videorl.data.report import prepared_document, show_prepared
    from videorl.data.store import FrameStore

    if blind_model and out is None:
        raise UserError("--blind-model marks or drops questions in the file that --out names; give --out FILE.parquet")
    where = [f"data.store={json.dumps(str(store.absolute()))}"] if store else []
    resolved = _config(files, media_root, remap, config, [*where, *(overrides or [])])
    data = resolved.data
    if data.store is None and config is None:
        raise UserError("give --store DIR, or a config whose store is to be filled with --config")
    preparation = Preparation(read_questions(files, media_root=data.media_root, remap=data.remap, format=data.format))
    source = FrameStore.from_config(data, resolved.store_dir)
    counts = None
    with NormalisedFile(out) if out else nullcontext() as file:  # opened now: a name that will not do is said at once
        try:
            with _progress("decoding") as progress:
                filled = preparation.fill(source, data.decode_workers, progress)
        finally:
            source.close()
        if file is not None:
            shares = _ask_blind(preparation, blind_model, blind_attempts, overrides or []) if blind_model else {}
            counts = preparation.write(file, shares, blind_drop)
    document = prepared_document(preparation.files, filled, counts)
    typer.echo(json.dumps(document, ensure_ascii=False) if as_json else show_prepared(document))


@store_app.command()
def stats(store: Store, as_json: Json = False) -> None:
    """How many files, how large, and in which form."""
    from videorl.data.upkeep import codecs, usage

    used, by_codec = usage(_root(store)), codecs(_root(store))
    tree = {"path": str(store), "files": used.files, "bytes": used.bytes, "by_codec": by_codec}
    lines = [f"{used.files} files, {used.bytes / 1e9:.3f} GB"]
    lines += [f"  {count} {codec}" for codec, count in by_codec.items()]
    typer.echo(json.dumps(tree) if as_json else "\n".join(lines))


@store_app.command()
def verify(
    store: Store,
    remove: Annotated[bool, typer.Option("--remove", help="Remove damaged files; they are made again.")] = False,
    as_json: Json = False,
) -> None:
    """Read every file. Exit code 1: some are damaged (and were left)."""
    from videorl.data.upkeep import verify as verify_files

    good, damaged = 0, []
    for path, wrong in verify_files(_root(store)):
        if wrong is None:
            good += 1
            continue
        damaged.append(wrong)
        if remove:
            path.unlink(missing_ok=True)
    tree = {"path": str(store), "good": good, "damaged": damaged, "removed": len(damaged) if remove else 0}
    done = " (removed)" if remove else ""
    typer.echo(json.dumps(tree) if as_json else "\n".join([f"{good} good, {len(damaged)} damaged{done}", *damaged]))
    if damaged and not remove:
        raise VideorlError(f"{len(damaged)} damaged files in {store}; --remove removes them")


@store_app.command()
def prune(
    store: Store,
    to_gb: Annotated[
        float, typer.Option("--to-gb", min=0, max=1e9, help="Keep at most this much, the last used first.")
    ],
    as_json: Json = False,
) -> None:
    """Remove the least recently used frames."""
    from videorl.data.upkeep import prune as prune_files

    removed = prune_files(_root(store), int(to_gb * 1e9))
    tree = {"path": str(store), "removed_files": removed.files, "removed_bytes": removed.bytes}
    typer.echo(json.dumps(tree) if as_json else f"removed {removed.files} files, {removed.bytes / 1e9:.3f} GB")


def _config(
    files: list[Path],
    media_root: Path | None,
    remap: list[str] | None,
    config: Path | None,
    overrides: list[str] | None,
) -> Config:
    """A run's config with these files; without one, the defaults of everything that concerns data."""
    from videorl.config import build_config, load_config

    forced = [f"data.train={json.dumps([str(file) for file in files])}"]
    if media_root is not None:
        forced.append(f"data.media_root={json.dumps(str(media_root))}")
    for pair in remap or []:
        old, equals, new = pair.partition("=")
        if not (old and equals):
            raise UserError(f"--remap {pair}: write OLD=NEW, for example /data/videos=/mnt/videos")
        forced.append(f"data.remap={{ {json.dumps(old)} = {json.dumps(new)} }}")
    if config is not None:
        return load_config(config, [*forced, *(overrides or [])])
    untrained = {"model": {"path": "."}, "rollout": {"max_response_tokens": 1}, "trainer": {"token_budget": 1 << 20}}
    return build_config(untrained, [*forced, *(overrides or [])], "the command line")


def _lengths(config: Config, folder: Path | None) -> PromptLengths | None:
    if folder is None:
        return None
    from videorl.data.prompt import PromptBuilder
    from videorl.data.templates import template_named

    template = template_named(config.data.prompt, config.reward.name)
    return PromptBuilder(folder, template, config.data.max_prompt_tokens)


@contextmanager
def _opened(config: Config) -> Iterator[Opened]:
    from videorl.data.check import Opened
    from videorl.data.pool import DecoderPool

    pool = DecoderPool(config.data.decode_workers, config.data.decode_timeout)
    try:
        with _progress("opening videos") as progress:
            yield Opened(pool.probe, config.data.decode_workers, progress)
    finally:
        pool.close()


@contextmanager
def _unopened() -> Iterator[None]:
    yield None


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with an estimate, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _ask_blind(preparation: Preparation, model: str, attempts: int, overrides: list[str]) -> dict[str, float]:
    """Each usable question's share of right answers without its video."""
    from videorl.cli.blind import answering_blind
    from videorl.data.blind import blind_shares

    async def ask() -> dict[str, float]:
        async with answering_blind(model, attempts, overrides) as (answer, in_flight):
            return {q.id: share async for q, share in blind_shares(preparation.usable(), answer, in_flight)}

    return asyncio.run(ask())


def _root(store: Path) -> Path:
    from videorl.data.store import store_root

    root = store_root(store)
    if not root.is_dir():
        raise UserError(f"{store}: holds no frame store")
    return root
