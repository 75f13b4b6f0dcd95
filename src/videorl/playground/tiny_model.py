"""A Qwen3-VL of under two million parameters, written as an ordinary Hugging Face folder.

The model and the processor are the real transformers classes; only the sizes and the vocabulary are small. The
tokenizer is a byte-level BPE, so that any text can be written, whose merges make one token of each word it is given
and of each option line ("B. red"). It is split at spaces and line ends only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from videorl.playground.vocabulary import WORDS

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
THINK_TOKENS = ("<think>", "</think>")  # added, but not special: they survive decoding, as in Qwen3's tokenizers

# An option line is one piece, else a word with the space before it, else a line end.
PIECES = r"[A-F]\. [^\n]+|\n+| ?[^ \n]+| +"

# The same output as Qwen3-VL's own template for the turns that are used here: text, and lists of text, video, image.
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'video' or 'video' in part %}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- elif part.type == 'image' or 'image' in part or 'image_url' in part %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def make_tiny_model(folder: Path, seed: int, words: Iterable[str] = WORDS, *, tie: bool = False) -> None:
    """Write a randomly initialised model with its tokenizer, processor and generation config to `folder`.

    The same seed and words give byte-identical files under the same library versions.

    Args:
        folder: made if absent; files of the same names are replaced.
        seed: of the initial weights; torch's global random state is left as it was.
        words: what becomes one token each; a leading space or an option's label belongs to the word.
        tie: the head shares the embedding's weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(words)
    processor = make_processor(tokenizer)
    processor.save_pretrained(folder)
    processor.image_processor.save_pretrained(folder)  # again in files of their own, where other tools look
    processor.video_processor.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(model_config(tokenizer, tie=tie))
    model.save_pretrained(folder)
    end_tokens = [tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>")]
    generation = {"do_sample": False, "eos_token_id": end_tokens, "pad_token_id": end_tokens[1]}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def make_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE that has learnt exactly `words`, with Qwen's special tokens and chat template."""
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1 << 20,  # never reached: it stops when each word is one token
        min_frequency=1,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    bpe.train_from_iterator(sorted(set(words)), trainer)
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    bpe.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINK_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_start_token": "<|vision_start|>",
            "vision_end_token": "<|vision_end|>",
        },
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=4_096,
    )


def make_processor(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    """Qwen3-VL's processor with its own patch sizes: 16x16 pixels, two frames, 2x2 patches a token."""
    pixels = {"shortest_edge": 32 * 32, "longest_edge": 64 * 128 * 8}
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3, size=pixels
        ),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(size=pixels, fps=2.0, min_frames=2, max_frames=8),
        chat_template=CHAT_TEMPLATE,
    )


def model_config(tokenizer: PreTrainedTokenizerFast, *, tie: bool) -> Qwen3VLConfig:
    """The sizes: head_dim 32 with M-RoPE sections 6 + 5 + 5, two vision layers that both feed DeepStack."""
    token_id = tokenizer.get_vocab().__getitem__
    return Qwen3VLConfig(
        dtype="float32",
        tie_word_embeddings=tie,
        image_token_id=token_id("<|image_pad|>"),
        video_token_id=token_id("<|video_pad|>"),
        vision_start_token_id=token_id("<|vision_start|>"),
        vision_end_token_id=token_id("<|vision_end|>"),
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 4_096,
            "initializer_range": 0.06,  # learns sooner than the usual 0.02 at this width
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            "eos_token_id": token_id("<|im_end|>"),
            "pad_token_id": token_id("<|endoftext|>"),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_heads": 3,
            "out_hidden_size": 128,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
            "initializer_range": 0.06,
        },
    )
