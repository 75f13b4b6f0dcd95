"""Every setting of a run. A field documents and bounds itself; derived numbers are properties.

The resolved config is saved with the run as config.toml. Nothing changes it at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from videorl.types import FrameSampling, Sampling

Fraction = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]  # up to a year: the system's clocks hold no more than centuries
NonNegativeInt = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true for 1."""
        if any(isinstance(one, bool) for one in (value if isinstance(value, list | tuple) else [value])):
            kinds = set(_kinds(cls.model_fields[info.field_name or ""].annotation))
            if bool not in kinds and kinds & {int, float}:
                wanted = "a whole number" if int in kinds else "a number"
                raise PydanticCustomError("truth", "true and false are no numbers; write {wanted}", {"wanted": wanted})
        return value


def _kinds(annotation: Any) -> Iterator[type]:
    """The types at the ends of an annotation: int and NoneType of `PositiveInt | None`."""
    if isinstance(annotation, type):
        yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


class RunConfig(Section):
    dir: Path = Path("runs/default")
    """The run directory: everything the run writes lies in it."""
    seed: NonNegativeInt = 0
    """Seeds the order of questions and every random state of the trainer."""
    resume: Literal["auto", "never"] = "auto"
    """auto: go on from the last complete checkpoint in `dir`, if any; never: refuse a `dir` that holds a run."""
    max_steps: PositiveInt | None = None
    """Stop after this many fit steps; unset: when the data is used up."""


class ModelConfig(Section):
    path: Path
    """A Hugging Face model folder. Nothing is fetched from a hub."""
    family: Literal["qwen3_vl"] = "qwen3_vl"
    """Which file of videorl/model knows this architecture."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Compute precision; auto: bfloat16 on GPU, float32 on CPU. Masters and optimizer state are always float32."""
    attention: Literal["auto", "split", "dense", "varlen"] = "auto"
    """How branches attend; auto: varlen on GPU, split on CPU. dense is the oracle: a boolean mask, any device."""
    freeze_vision: bool = False
    """Train the language model only; the vision tower is neither updated nor published."""


class DataConfig(Section):
    train: Annotated[tuple[Path, ...], Field(min_length=1)]
    """Question files of any known format."""
    media_root: Path | None = None
    """Where relative media paths start; unset: the folder of the file that names them."""
    remap: dict[str, str] = {}
    """Path prefixes to replace: { "/old/root" = "/new/root" }."""
    format: str | None = None
    """The format of all files, by name; unset: recognised by the fields of each file's first row."""
    epochs: PositiveInt = 1
    """How often every question is asked."""
    shuffle: bool = True
    """A new seeded order in each epoch; false: the files' order."""
    prompt: str = "auto"
    """auto: the template of the reward's format; as-given: the row's own text; else module:function."""
    fps: PositiveFloat = 1.0
    """Frames taken from a second of video."""
    max_frames: Annotated[int, Field(ge=2, multiple_of=2)] = 24
    """The most frames of one video."""
    min_frames: Annotated[int, Field(ge=2, multiple_of=2)] = 2
    """The fewest frames of one video."""
    max_pixels: Annotated[int, Field(ge=1024)] = 100_000
    """The largest area of a frame after resizing."""
    min_pixels: Annotated[int, Field(ge=1024)] = 3_136
    """The smallest area of a frame after resizing."""
    max_prompt_tokens: PositiveInt = 17_408
    """A longer prompt is dropped with its reason, never cut."""
    store: Path | None = None
    """The frame store; unset: `frames` beside the run directories, shared by runs."""
    store_codec: Literal["raw", "lossless", "jpeg"] = "raw"
    """How the store keeps frames; every reader sees the same pixels whichever it is."""
    store_gb: PositiveFloat = 200.0
    """The store's size; the least recently used frames go first."""
    decoder: Literal["pyav", "torchcodec"] = "pyav"
    """Who decodes the pictures of a video; torchcodec, where it loads, gives the same frames (docs/data.md)."""
    decode_workers: PositiveInt = 2
    """Processes that decode, per machine."""
    decode_threads: PositiveInt = 1
    """Threads of one such process."""
    decode_timeout: Seconds = 60.0
    """Seconds that a video may take before its worker is ended and the question dropped."""
    max_bad_share: Fraction = 0.1
    """More than this share of questions dropped for their media stops the run with a report."""

    @property
    def frame_sampling(self) -> FrameSampling:
        return FrameSampling(self.fps, self.max_frames, self.min_frames, self.min_pixels, self.max_pixels)


class RewardConfig(Section):
    name: str = "letter"
    """letter, vero, or module:function of your own."""
    format_weight: Fraction = 0.2
    """score = (1 - format_weight)·accuracy + format_weight·format."""
    min_think_chars: NonNegativeInt = 100
    """The shortest reasoning that counts as well formed."""


class AlgoConfig(Section):
    group_size: Annotated[int, Field(ge=1)] = 8
    """Responses sampled for each question (n)."""
    clip_low: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Lower bound of the ratio is 1 - clip_low; 1: none, for no ratio is below 0."""
    clip_high: PositiveFloat = 0.3
    """Upper bound of the ratio is 1 + clip_high."""
    dual_clip: Annotated[float, Field(gt=1)] = 10.0
    """The loss of a token with negative advantage is at most dual_clip·|A|."""
    importance: Literal["none", "truncated", "masked"] = "none"
    """Correction for old log-probs that differ from the engine's policy: none, cap the weight, or drop the token."""
    importance_cap: Annotated[float, Field(ge=1)] = 2.0
    """The cap of that weight."""
    ratio_level: Literal["token", "sequence"] = "token"
    """token: GRPO's ratio; sequence: the geometric mean over the response (GSPO)."""
    kl_coef: NonNegativeFloat = 0.0
    """Weight of the KL term to the reference policy (the model the run began with)."""
    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus."""


class RolloutConfig(Section):
    max_response_tokens: PositiveInt = 16_384
    """A response that reaches it ends with finish_reason "length"."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature; the trainer's softmax uses the same."""
    top_p: float = 1.0
    """Fixed at 1: a smaller value changes the engine's distribution without standing in the trainer's softmax."""
    top_k: int = -1
    """Fixed at -1 (off): a cut changes the engine's distribution without standing in the trainer's softmax."""
    min_tokens: int = 0
    """Fixed at 0: a least length masks the end token in the engine without standing in the trainer's softmax."""
    tensor_parallel: PositiveInt = 1
    """Devices of one replica."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """vLLM's share of a GPU."""
    enforce_eager: bool = True
    """No CUDA graphs."""
    block_size: PositiveInt | None = None
    """Tokens of one KV block; unset: the engine's default. Smaller shares more of a prompt on CPU."""
    kv_cache_gib: PositiveFloat = 1.0
    """KV memory of one replica on CPU, in GiB (on GPU gpu_memory_utilization decides)."""
    max_num_seqs: PositiveInt = 256
    """Responses that one replica decodes at once."""
    max_batched_tokens: PositiveInt = 8_192
    """Tokens of one engine step."""
    request_timeout: Seconds = 1_800.0
    """Seconds that one group may take in the engine."""
    start_timeout: Seconds = 900.0
    """Seconds that a replica may take to start."""

    @field_validator("top_p", "top_k", "min_tokens")
    @classmethod
    def _fixed(cls, value: float, info: ValidationInfo) -> float:
        field = cls.model_fields[info.field_name or ""]
        if value != field.default:
            raise PydanticCustomError("fixed", "{why}", {"why": (field.description or "").rstrip(".")})
        return value


class TrainerConfig(Section):
    prompts_per_update: PositiveInt = 16
    """Groups of one optimizer step."""
    updates_per_step: PositiveInt = 4
    """Optimizer steps of one fit step, after which the weights are published."""
    lr: PositiveFloat = 1e-6
    """Learning rate after warm-up."""
    vision_lr_scale: NonNegativeFloat = 1.0
    """The vision tower's learning rate is lr times this."""
    warmup_steps: NonNegativeInt = 25
    """Fit steps over which the learning rate rises linearly."""
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    """AdamW's decay rates."""
    eps: PositiveFloat = 1e-8
    """AdamW's epsilon."""
    weight_decay: NonNegativeFloat = 0.01
    """AdamW's decoupled weight decay."""
    grad_clip: PositiveFloat = 1.0
    """Largest global gradient norm."""
    token_budget: PositiveInt = 32_768
    """Packed tokens of one micro-batch on one rank; a larger group is split between branches."""
    logprob_chunk: PositiveInt = 1_024
    """Response positions whose logits exist at once."""
    activation_checkpointing: bool = True
    """Recompute each layer's activations in the backward pass."""
    update_timeout: Seconds = 3_600.0
    """Seconds that one optimizer step may take."""


class AsyncConfig(Section):
    staleness: NonNegativeFloat = 0.4
    """Questions issued ahead: at most ⌊(1 + staleness)·G⌋ groups are outstanding. 0: synchronous."""
    max_lag: NonNegativeInt = 2
    """No group is trained whose oldest token is more versions old than this."""

    @model_validator(mode="after")
    def _lag_can_hold(self) -> Self:
        if self.staleness > self.max_lag:
            raise ValueError(
                f"staleness {self.staleness} cannot be kept within max_lag {self.max_lag}: "
                f"raise async.max_lag to {int(-(-self.staleness // 1))} or lower async.staleness"
            )
        return self


class CheckpointConfig(Section):
    every: PositiveInt = 20
    """Fit steps between checkpoints; the last step always writes one."""
    keep: PositiveInt | None = None
    """Keep only the newest ones (and the keeper); unset: all."""


class EvalConfig(Section):
    benchmarks: dict[str, Path] = {}
    """Files to evaluate: { "video-mme" = "test.parquet" }."""
    media_root: Path | None = None
    """Where the benchmarks' media lie."""
    every: PositiveInt = 20
    """Fit steps between evaluations."""
    max_response_tokens: PositiveInt = 4_096
    """The longest answer in evaluation."""
    temperature: NonNegativeFloat = 0.0
    """0: greedy."""
    tensor_parallel: PositiveInt = 1
    """Devices of one evaluation replica."""
    replicas: PositiveInt = 1
    """Replicas that share the rows."""


class ClusterConfig(Section):
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """auto: gpu where torch sees one."""
    address: str | None = None
    """A running Ray cluster; unset: start one on this machine."""
    nodes: PositiveInt = 1
    """Machines of the job."""
    devices_per_node: PositiveInt = 8
    """GPUs of one machine (on CPU: how many processes it may hold)."""
    trainer_ranks: PositiveInt = 1
    """FSDP2 ranks."""
    rollout_devices: PositiveInt = 1
    """Devices for rollout; tensor_parallel of them make a replica."""
    share_devices: bool = False
    """Trainer and rollout on the same devices (a single GPU); needs a smaller gpu_memory_utilization."""
    weight_transport: Literal["auto", "shm", "nccl"] = "auto"
    """auto: shared memory on CPU and on one node, NCCL across nodes."""


class MonitorConfig(Section):
    console: Literal["auto", "rich", "plain", "off"] = "auto"
    """auto: a live table on a terminal, plain lines elsewhere."""
    trackers: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = ()
    """Besides metrics.jsonl, which is always written."""
    project: str = "videorl"
    """The trackers' project."""
    rollout_samples: NonNegativeInt = 1
    """Responses shown on the console each step."""


class Config(Section):
    """One run."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_by_name=True, serialize_by_alias=True
    )

    run: RunConfig = RunConfig()
    model: ModelConfig
    data: DataConfig
    reward: RewardConfig = RewardConfig()
    algo: AlgoConfig = AlgoConfig()
    rollout: RolloutConfig = RolloutConfig()
    trainer: TrainerConfig = TrainerConfig()
    async_: Annotated[AsyncConfig, Field(alias="async")] = AsyncConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    eval: EvalConfig = EvalConfig()
    cluster: ClusterConfig = ClusterConfig()
    monitor: MonitorConfig = MonitorConfig()

    @property
    def groups_per_step(self) -> int:
        """G: groups of one fit step."""
        return self.trainer.prompts_per_update * self.trainer.updates_per_step

    @property
    def trajectories_per_step(self) -> int:
        return self.groups_per_step * self.algo.group_size

    @property
    def max_outstanding(self) -> int:
        """⌊(1 + s)·G⌋: groups issued and not yet trained-and-published."""
        return int((1 + self.async_.staleness) * self.groups_per_step + 1e-9)

    @property
    def replicas(self) -> int:
        return self.cluster.rollout_devices // self.rollout.tensor_parallel

    @property
    def max_model_len(self) -> int:
        return self.data.max_prompt_tokens + self.rollout.max_response_tokens

    @property
    def store_dir(self) -> Path:
        return self.data.store or self.run.dir.parent / "frames"

    @property
    def sampling(self) -> Sampling:
        r = self.rollout
        return Sampling(r.temperature, r.max_response_tokens, r.top_p, r.top_k)

    @property
    def derived(self) -> dict[str, int]:
        """The numbers that follow from the settings, for people."""
        return {
            "groups_per_step": self.groups_per_step,
            "trajectories_per_step": self.trajectories_per_step,
            "max_outstanding_groups": self.max_outstanding,
            "trainer_ranks": self.cluster.trainer_ranks,
            "replicas": self.replicas,
            "devices": self.cluster.nodes * self.cluster.devices_per_node,
            "max_model_len": self.max_model_len,
        }

    @model_validator(mode="after")
    def _fits_the_cluster(self) -> Self:
        c, tp = self.cluster, self.rollout.tensor_parallel
        if c.rollout_devices % tp:
            raise ValueError(
                f"cluster.rollout_devices {c.rollout_devices} is no multiple of rollout.tensor_parallel {tp}"
            )
        wanted = max(c.trainer_ranks, c.rollout_devices) if c.share_devices else c.trainer_ranks + c.rollout_devices
        have = c.nodes * c.devices_per_node
        if wanted > have:
            raise ValueError(
                f"cluster: {c.trainer_ranks} trainer ranks and {c.rollout_devices} rollout devices need "
                f"{wanted} devices, but {c.nodes} x {c.devices_per_node} are {have}"
            )
        return self

    @model_validator(mode="after")
    def _budget_holds_a_branch(self) -> Self:
        if self.trainer.token_budget < self.max_model_len:
            raise ValueError(
                f"trainer.token_budget {self.trainer.token_budget} cannot hold one prompt and one response "
                f"(data.max_prompt_tokens + rollout.max_response_tokens = {self.max_model_len})"
            )
        return self
