"""The vLLM replica: one class for CPU and GPU.

    generate ──► frames (thread) ─► render: ids compared ─► AsyncLLM ─► EngineCore process ─► worker process(es)
                                                               ▲
    load_weights ─ pause(keep) ─ load ─ drop prefix and encoder caches ─ label version ─ resume

Invariant: weights and version label change only while the engine is paused and nothing is in a step, and what the old
weights computed (KV, vision embeddings) is gone before it resumes: a token's version is the version of the weights
that its whole context was computed with. When the engine dies, every waiting call ends with EngineDied.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from vllm import TokensPrompt
from vllm.exceptions import VLLMClientError
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from videorl.data.source import FrameSource
from videorl.errors import DeadlineExceeded, EngineDied, QuestionDropped
from videorl.rollout.settings import EngineSettings
from videorl.rollout.shared_segments import remove_stale_segments
from videorl.rollout.vllm_arguments import engine_arguments, media_inputs, sampling_params, set_environment
from videorl.rollout.vllm_weights import NcclReceiver
from videorl.types import Drop, DropReason, Prompt, Rollout, Sampling, WeightHandle

T = TypeVar("T")

DEATH_POLL = 0.1  # seconds between two looks at whether the engine lives
CLOSE_GRACE = 1.0  # seconds that its processes get before they are killed; nothing of theirs is worth keeping
_launching = threading.Lock()  # the environment belongs to one start at a time


class VllmEngine:
    """An Engine (rollout/engine.py) on vLLM's AsyncLLM. Make one with `start`; it lives on the running event loop."""

    def __init__(
        self,
        name: str,
        settings: EngineSettings,
        source: FrameSource,
        llm: AsyncLLM,
        tokenizer: PreTrainedTokenizerBase,
        owner: ThreadPoolExecutor,
    ) -> None:
        self.name = name
        self._settings = settings
        self._source = source
        self._llm = llm
        self._tokenizer = tokenizer
        self._owner = owner
        self._nccl = NcclReceiver(llm, 1 + settings.replica * settings.tensor_parallel)
        self._loading = asyncio.Lock()
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch = asyncio.create_task(self._watch_for_death(), name=f"{name}-watch")
        self._closed = False

    @classmethod
    async def start(cls, settings: EngineSettings, source: FrameSource, name: str) -> Self:
        """Start the engine's processes with the weights of `settings.model`, as version 0.

        Raises:
            DeadlineExceeded: not within `start_timeout`.
            EngineDied: vLLM refused or failed.
        """
        # The thread lives as long as the engine: its children die with it (vllm_plugin.py).
        owner = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-owner")
        launch = asyncio.get_running_loop().run_in_executor(owner, _launch, settings)
        try:
            async with asyncio.timeout(settings.start_timeout):
                llm, tokenizer = await asyncio.shield(launch)
                engine = cls(name, settings, source, llm, tokenizer, owner)
                await llm.update_weight_version("0")
        except TimeoutError:
            launch.add_done_callback(_shut_down_late)
            raise DeadlineExceeded(
                f"{name}: did not start within {settings.start_timeout:g} s; raise rollout.start_timeout"
            ) from None
        except Exception as error:
            owner.shutdown(wait=False)
            raise EngineDied(f"{name}: did not start: {_one_line(error)}") from error
        return engine

    # ── generation ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Engine.generate: one vLLM request; frames are read by this process."""
        params = sampling_params(sampling, n, self._settings)
        return await self._while_alive(
            self._generate(request_id, prompt, params), self._settings.request_timeout, f"request {request_id}"
        )

    async def _generate(self, request_id: str, prompt: Prompt, params: SamplingParams) -> list[Rollout]:
        try:
            rendered = await self._render(prompt)
            final: RequestOutput | None = None
            async for output in self._llm.generate(rendered, params, request_id):
                final = output
        except (VLLMClientError, ValueError) as error:
            raise QuestionDropped(Drop(DropReason.PROMPT_INVALID, _one_line(error))) from error
        except EngineGenerateError as error:
            raise QuestionDropped(Drop(DropReason.GENERATION_FAILED, _one_line(error))) from error
        return self._rollouts(final, params.n)

    async def _render(self, prompt: Prompt) -> Any:
        """vLLM's own view of the prompt: placeholders expanded, pixels processed.

        Raises:
            QuestionDropped: PROMPT_INVALID where it differs from the trainer's.
        """
        frames = await asyncio.to_thread(lambda: [self._source.load(ref) for ref in prompt.frames])
        request = TokensPrompt(prompt_token_ids=prompt.bare_ids.tolist(), **media_inputs(prompt.frames, frames))
        rendered: Any  # a TypedDict whose "prompt_token_ids" vLLM declares for some kinds only
        (rendered,) = await self._llm.renderer.render_cmpl_async([request])
        ids = np.asarray(rendered["prompt_token_ids"], dtype=np.int32)
        if not np.array_equal(ids, prompt.token_ids):
            detail = f"engine and trainer expand the prompt differently ({len(ids)} and {len(prompt.token_ids)} tokens)"
            raise QuestionDropped(Drop(DropReason.PROMPT_INVALID, detail))
        return rendered

    def _rollouts(self, final: RequestOutput | None, n: int) -> list[Rollout]:
        outputs = sorted(final.outputs, key=lambda output: output.index) if final else []
        if len(outputs) != n:
            raise QuestionDropped(
                Drop(DropReason.GENERATION_FAILED, f"{self.name} returned {len(outputs)} of {n} responses")
            )
        return [self._rollout(output) for output in outputs]

    def _rollout(self, output: CompletionOutput) -> Rollout:
        if output.finish_reason not in ("stop", "length"):
            raise QuestionDropped(
                Drop(DropReason.GENERATION_FAILED, f"{self.name} ended a response with {output.finish_reason!r}")
            )
        token_ids = np.asarray(output.token_ids, dtype=np.int32)
        flat = output.logprobs
        logprobs = np.asarray(flat.logprobs, dtype=np.float32)[flat.start_indices]  # type: ignore[union-attr]
        versions = np.full(len(token_ids), -1, dtype=np.int32)
        for span in output.weight_versions or ():
            versions[span.start : span.end] = int(span.version)
        if len(logprobs) != len(token_ids) or (versions < 0).any():
            raise QuestionDropped(
                Drop(DropReason.GENERATION_FAILED, f"{self.name} left tokens without log-prob or version")
            )
        text = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        return Rollout(token_ids, logprobs, versions, text, output.finish_reason)  # type: ignore[arg-type]

    # ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def load_weights(self, handle: WeightHandle) -> None:
        """Engine.load_weights. A load that fails leaves mixed weights: the engine is closed and counts as dead."""
        async with self._loading:
            try:
                await self._while_alive(self._load(handle), self._settings.load_timeout, f"version {handle.version}")
            except EngineDied:
                raise
            except Exception as error:
                await self.close()
                raise EngineDied(f"{self.name}: loading version {handle.version} failed: {_one_line(error)}") from error

    async def _load(self, handle: WeightHandle) -> None:
        llm = self._llm
        await llm.pause_generation(mode="keep", clear_cache=False)  # clearing here would lose requests
        if handle.transport == "shm":
            await llm.collective_rpc("load_staged_weights", args=(handle.location, handle.version))
        else:
            await self._nccl.receive(handle)
        if not await llm.reset_prefix_cache(reset_running_requests=True):
            raise RuntimeError("the engine could not drop the old weights' KV cache")
        await llm.reset_encoder_cache()
        await llm.update_weight_version(str(handle.version))
        if (found := await llm.get_weight_version()) != str(handle.version):
            raise RuntimeError(f"the engine reports version {found}")
        await llm.resume_generation()

    async def version(self) -> int:
        """Engine.version."""
        return int(await self._while_alive(self._llm.get_weight_version(), self._settings.load_timeout, "version"))

    # ── life and death ──────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """End the engine's processes and give back their shared memory. Closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        self._watch.cancel()
        if not self._death.done():
            self._death.set_result(None)
        await asyncio.get_running_loop().run_in_executor(self._owner, self._llm.shutdown, CLOSE_GRACE)
        self._owner.shutdown(wait=False)

    async def _watch_for_death(self) -> None:
        """vLLM fails its requests when the engine dies, but leaves control calls (pause, load) waiting."""
        while not self._llm.errored:  # noqa: ASYNC110  # vLLM has no event for it
            await asyncio.sleep(DEATH_POLL)
        if not self._death.done():
            self._death.set_result(None)

    async def _while_alive(self, work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
        """The result of `work`, unless the engine dies or the deadline passes first."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._death}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if not self._death.done():
                raise DeadlineExceeded(f"{self.name}: {what} took longer than {seconds:g} s")
        except EngineDeadError:
            pass
        finally:
            task.cancel()
        raise EngineDied(f"{self.name}: the engine is gone ({what})")


def _launch(settings: EngineSettings) -> tuple[AsyncLLM, PreTrainedTokenizerBase]:
    with _launching:
        remove_stale_segments()
        set_environment(settings)
        llm = AsyncLLM.from_engine_args(engine_arguments(settings))
    return llm, AutoTokenizer.from_pretrained(settings.model, local_files_only=True)


def _shut_down_late(launch: asyncio.Future[tuple[AsyncLLM, PreTrainedTokenizerBase]]) -> None:
    """An engine that came up after its deadline."""
    if not launch.cancelled() and launch.exception() is None:
        launch.result()[0].shutdown()


def _one_line(error: BaseException) -> str:
    """The error's first line, with its kind where it says nothing by itself."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
