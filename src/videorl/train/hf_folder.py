"""The trained weights as an ordinary Hugging Face model folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from huggingface_hub import save_torch_state_dict
from torch import nn

from videorl.train.parallelize import full_tensors


def save_hf(folder: Path, model: nn.Module, base: Path, dtype: torch.dtype) -> None:
    """Write `model`'s weights in `dtype` beside the base folder's config, tokenizer and processor. A collective."""
    weights = {}
    for name, tensor in full_tensors(model):
        if dist.get_rank() == 0:
            # A copy: a gathered tensor may be a view of a longer buffer, which safetensors refuses.
            weights[name] = tensor.to("cpu", dtype, copy=True).contiguous()
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        for file in base.iterdir():
            if file.is_file() and "safetensors" not in file.name and file.suffix in {".json", ".jinja", ".txt"}:
                shutil.copyfile(file, folder / file.name)
        config = json.loads((base / "config.json").read_text())
        config["dtype"] = str(dtype).removeprefix("torch.")
        (folder / "config.json").write_text(json.dumps(config, indent=2))
        save_torch_state_dict(weights, folder, metadata={"format": "pt"})
        for file in folder.glob("*.safetensors"):
            file.chmod(0o644)  # safetensors makes files for their owner only
    dist.barrier()
