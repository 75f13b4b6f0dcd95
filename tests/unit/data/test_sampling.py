"""Which frames and how large, against the values that the rule names and the reference's own resize."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

from videorl.data.sampling import fit_size, frame_count, frame_indices, sampling_for, vision_tokens
from videorl.types import FrameSampling, Media

DEFAULT = FrameSampling()


@pytest.mark.parametrize(
    ("duration", "total", "frames"),
    [(5.0, 150, 4), (60.0, 1800, 24), (4.0 - 1e-9, 120, 4), (0.3, 9, 2), (23.9, 700, 22), (100.0, 3, 2), (0.0, 1, 2)],
)
def test_the_number_of_frames_follows_duration_cap_and_total(duration: float, total: int, frames: int) -> None:
    assert frame_count(duration, total, DEFAULT) == frames


def test_a_minimum_above_the_frames_there_are_repeats_frames() -> None:
    assert frame_count(0.1, 3, FrameSampling(min_frames=4)) == 4
    assert frame_indices(3, 4).tolist() == [0, 1, 1, 2]


def test_a_single_frame_is_repeated() -> None:
    assert frame_indices(1, 2).tolist() == [0, 0]


@given(st.floats(0, 1e4), st.integers(1, 10**6), st.floats(0.1, 30), st.integers(1, 64), st.integers(0, 16))
def test_the_count_is_always_even_and_indices_ascend_within_the_clip(
    duration: float, total: int, fps: float, half_cap: int, least: int
) -> None:
    sampling = FrameSampling(fps=fps, max_frames=2 * half_cap, min_frames=least)
    count = frame_count(duration, total, sampling)
    indices = frame_indices(total, count)
    assert count % 2 == 0
    assert count >= max(2, least)
    assert indices[0] == 0
    assert indices[-1] == total - 1
    assert (indices[1:] >= indices[:-1]).all()


def test_sixteen_to_nine_at_a_hundred_thousand_pixels_is_416_by_224_and_91_tokens_a_pair() -> None:
    assert fit_size(720, 1280, DEFAULT) == (224, 416)
    assert vision_tokens(24, 224, 416) == 1092


@given(st.integers(32, 3000), st.integers(32, 3000))
def test_sizes_equal_those_of_the_reference_resize(height: int, width: int) -> None:
    expected = smart_resize(height, width, factor=32, min_pixels=3_136, max_pixels=100_000)
    assert fit_size(height, width, DEFAULT) == expected


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_sizes_are_multiples_of_32(height: int, width: int) -> None:
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(ValueError, match="times as long as wide"):
            fit_size(height, width, DEFAULT)
    else:
        fitted = fit_size(height, width, DEFAULT)
        assert all(side % 32 == 0 and side > 0 for side in fitted)


def test_a_row_overrides_what_it_sets_and_keeps_the_rest() -> None:
    own = sampling_for(Media("video", "/v.mp4", limits={"fps": 2.5, "max_frames": 8.0}), DEFAULT)
    assert own == FrameSampling(fps=2.5, max_frames=8)
