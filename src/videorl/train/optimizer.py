"""AdamW, its learning rate over fit steps, and gradient clipping."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from videorl.config.schema import TrainerConfig
from videorl.model.policy import Policy


class Optimizer:
    """AdamW over the policy's trained parameters; the vision tower has a rate of its own."""

    def __init__(self, policy: Policy, config: TrainerConfig) -> None:
        self._config = config
        vision = {id(p) for p in policy.family.vision(policy.model).parameters()}
        trained = [p for p in policy.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if id(p) not in vision], "scale": 1.0},
            {"params": [p for p in trained if id(p) in vision], "scale": config.vision_lr_scale},
        ]
        self.adamw = torch.optim.AdamW(
            [g for g in groups if g["params"]],
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
        )

    def step(self, fit_step: int) -> tuple[float, bool]:
        """Clip the accumulated gradients, take one step with the rate of `fit_step`, and forget the gradients.

        Returns:
            the global gradient norm before clipping, and whether the step was taken: not with a non-finite norm.
        """
        parameters = [p for g in self.adamw.param_groups for p in g["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        total = nn.utils.get_total_norm(gradients)
        norm = total.full_tensor() if isinstance(total, DTensor) else total
        finite = bool(torch.isfinite(norm))
        if finite:
            nn.utils.clip_grads_with_norm_(parameters, self._config.grad_clip, total)
            for group in self.adamw.param_groups:
                group["lr"] = learning_rate(self._config, fit_step) * group["scale"]
            self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        return float(norm), finite


def learning_rate(config: TrainerConfig, step: int) -> float:
    """lr·min(1, k / warmup) at fit step k, from 1."""
    return config.lr * (min(1.0, step / config.warmup_steps) if config.warmup_steps else 1.0)
