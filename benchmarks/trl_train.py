"""The control's training, inside TRL's environment: GRPOTrainer on one run's questions, with images in place of video.

`trl_control.py` starts it, with this package's sources on the path: settings, reward and token rules are the run's own.

    python trl_train.py RUN/config.toml QUESTIONS.parquet OUT

It leaves OUT/metrics.jsonl (a line for each fit step: accuracy, score, seconds since the start), OUT/trl.json (TRL's
own log) and, last, OUT/model.

What TRL does otherwise, and no setting changes: it mixes the responses of a fit step over its updates (here a group
stays in one update), divides by a fit step's mean number of tokens in place of each update's own, adds 1e-4 to a
group's standard deviation (here 1e-6), and leaves the forbidden tokens in the trainer's softmax.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from datasets import Dataset, Image, List
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig, GRPOTrainer

from videorl.config import Config, load_config
from videorl.data.tokens import TokenRules
from videorl.rewards.load import load_reward
from videorl.rewards.reward import Unscored
from videorl.train.optimizer import learning_rate
from videorl.types import Question


class FitSteps:
    """TRL's reward function. It is called once a fit step, with all its responses, and writes the step's line."""

    __name__ = "score"  # TRL names its metrics after it

    def __init__(self, config: Config, file: Path) -> None:
        self._reward = load_reward(config.reward)
        self._file = file
        self._began = time.monotonic()
        self._step = 0
        file.unlink(missing_ok=True)

    def __call__(
        self,
        completions: Sequence[Sequence[Mapping[str, str]]],
        options: Sequence[Sequence[str]],
        answer: Sequence[int],
        **_: Any,
    ) -> list[float]:
        scores = [self._score(*row) for row in zip(completions, options, answer, strict=True)]
        self._step += 1
        line = {
            "step": self._step,
            "responses": len(scores),
            "accuracy": sum(score.accuracy for score in scores) / len(scores),
            "score": sum(score.score for score in scores) / len(scores),
            "seconds": time.monotonic() - self._began,
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return [score.score for score in scores]

    def _score(self, completion: Sequence[Mapping[str, str]], options: Sequence[str], answer: int) -> Any:
        question = Question("", "multiple_choice", "", tuple(options), answer, (), "")
        verdict = self._reward(question, completion[-1]["content"], thinks=False)
        assert not isinstance(verdict, Unscored), verdict
        return verdict


def grpo_config(config: Config, forbidden: Sequence[int], out: Path) -> GRPOConfig:
    """TRL's names for the run's settings."""
    algo, trainer = config.algo, config.trainer
    return GRPOConfig(
        output_dir=str(out / "trainer"),
        seed=config.run.seed,
        max_steps=config.run.max_steps * trainer.updates_per_step,
        per_device_train_batch_size=trainer.prompts_per_update * algo.group_size,
        gradient_accumulation_steps=1,
        steps_per_generation=trainer.updates_per_step,
        num_generations=algo.group_size,
        shuffle_dataset=False,  # the file has the run's order
        max_completion_length=config.rollout.max_response_tokens,
        temperature=config.rollout.temperature,
        generation_kwargs={"suppress_tokens": list(forbidden)},
        loss_type="dapo",  # over the tokens of an update
        scale_rewards="group",
        epsilon=algo.clip_low,
        epsilon_high=algo.clip_high,
        delta=algo.dual_clip,
        beta=algo.kl_coef,
        entropy_coef=algo.entropy_coef,
        max_grad_norm=trainer.grad_clip,
        gradient_checkpointing=False,
        use_cpu=True,
        bf16=False,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )


def optimizer(model: torch.nn.Module, config: Config) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LRScheduler]:
    """The run's AdamW, and its warm-up over fit steps in TRL's count of updates."""
    trainer = config.trainer
    vision = [p for name, p in model.named_parameters() if name.startswith("model.visual.")]
    rest = [p for name, p in model.named_parameters() if not name.startswith("model.visual.")]
    adamw = torch.optim.AdamW(
        [{"params": rest, "lr": trainer.lr}, {"params": vision, "lr": trainer.lr * trainer.vision_lr_scale}],
        betas=trainer.betas,
        eps=trainer.eps,
        weight_decay=trainer.weight_decay,
    )

    def share(update: int) -> float:
        return learning_rate(trainer, update // trainer.updates_per_step + 1) / trainer.lr

    return adamw, torch.optim.lr_scheduler.LambdaLR(adamw, share)


def save(model: Any, base: Path, folder: Path) -> None:
    """The weights among the base's other files, which TRL's trainer has changed in memory."""
    part = folder.with_name("model.part")
    model.save_pretrained(part)
    for file in base.iterdir():
        if file.suffix != ".safetensors":
            shutil.copy2(file, part / file.name)
    part.rename(folder)


def main() -> None:
    config_file, questions, out = map(Path, sys.argv[1:])
    config = load_config(config_file)
    base = config.model.path
    model = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32, local_files_only=True)
    rows = Dataset.from_list(pq.read_table(questions).to_pylist())
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=FitSteps(config, out / "metrics.jsonl"),
        args=grpo_config(config, TokenRules.of_model(base).forbidden.tolist(), out),
        train_dataset=rows.cast_column("images", List(Image())),
        processing_class=AutoProcessor.from_pretrained(base, local_files_only=True, padding_side="left"),
        optimizers=optimizer(model, config),
    )
    trainer.train()
    (out / "trl.json").write_text(json.dumps(trainer.state.log_history, indent=1) + "\n", encoding="utf-8")
    save(model, base, out / "model")


if __name__ == "__main__":
    main()
