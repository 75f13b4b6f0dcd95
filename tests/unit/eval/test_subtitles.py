from pathlib import Path

import numpy as np

from videorl.eval.subtitles import read_srt, subtitles_at

SRT = """\ufeff1
00:00:00,500 --> 00:00:02,000
<font color="white" size=".72c">Good morning</font>

2
00:01:01,250 --> 00:01:03,000
two lines
of speech
"""


def test_cues_have_times_in_seconds_and_text_without_tags(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT, encoding="utf-8")
    cues = read_srt(tmp_path / "a.srt")
    assert [(c.start, c.end, c.text) for c in cues] == [
        (0.5, 2.0, "Good morning"),
        (61.25, 63.0, "two lines of speech"),
    ]


def test_only_what_is_shown_at_a_frame_is_told_and_only_once(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT, encoding="utf-8")
    cues = read_srt(tmp_path / "a.srt")
    assert subtitles_at(cues, np.array([0.0, 1.0, 1.5, 30.0])) == "Good morning"
    assert subtitles_at(cues, np.array([0.0, 30.0])) == ""
    assert subtitles_at(cues, np.array([1.0, 62.0])) == "Good morning\ntwo lines of speech"
