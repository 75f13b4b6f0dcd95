from dataclasses import replace
from pathlib import Path

import pytest

from builders_eval import prediction, question
from videorl.errors import UserError
from videorl.eval.predictions import (
    Prediction,
    PredictionFile,
    evaluation_key,
    fingerprint,
    read_predictions,
    weights_digest,
)


def answer_of(number: int, error: str | None = None) -> Prediction:
    return replace(prediction(number, error=error), question=fingerprint(question(number)))


def test_answers_are_found_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    with PredictionFile(path, "key1") as file:
        file.append(answer_of(0))
    with PredictionFile(path, "key1") as file:
        assert file.find("made", question(0)) == answer_of(0)
        assert file.find("made", question(1)) is None
        assert file.find("other", question(0)) is None


def test_a_cut_last_line_is_repaired_and_loses_only_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    with PredictionFile(path, "key1") as file:
        for number in range(3):
            file.append(answer_of(number))
    path.write_bytes(path.read_bytes()[:-40])
    with PredictionFile(path, "key1") as file:
        assert [file.find("made", question(n)) is not None for n in range(3)] == [True, True, False]
        file.append(answer_of(2))
    assert [p.id for p in read_predictions(path)] == ["made/0", "made/1", "made/2"]


def test_failed_rows_are_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    with PredictionFile(path, "key1") as file:
        file.append(answer_of(0))
        file.append(answer_of(1, error="video_broken: x"))
    with PredictionFile(path, "key1") as file:
        assert file.find("made", question(0)) is not None
        assert file.find("made", question(1)) is None
        file.append(answer_of(1))
    assert len(read_predictions(path)) == 2


def test_answers_of_another_key_are_set_aside_and_come_back_with_it(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    for key in ("key1", "key2"):
        with PredictionFile(path, key) as file:
            assert file.find("made", question(0)) is None
            file.append(answer_of(0))
    with PredictionFile(path, "key1") as file:
        assert file.find("made", question(0)) is not None
    assert len(read_predictions(path)) == 1
    assert (tmp_path / "predictions-key2.jsonl").is_file()


def test_an_edited_question_is_another_row(tmp_path: Path) -> None:
    with PredictionFile(tmp_path / "predictions.jsonl", "key1") as file:
        file.append(answer_of(0))
        assert file.find("made", replace(question(0), answer=2)) is None


def test_a_row_cannot_be_written_twice(tmp_path: Path) -> None:
    with PredictionFile(tmp_path / "predictions.jsonl", "key1") as file:
        file.append(answer_of(0))
        with pytest.raises(ValueError, match="already stands"):
            file.append(answer_of(0))


def test_two_evaluations_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    with PredictionFile(path, "key1"), pytest.raises(UserError, match="another evaluation"):
        PredictionFile(path, "key1")


def test_new_weights_under_an_old_path_have_another_digest(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"old weights")
    (tmp_path / "config.json").write_text("{}")
    old = weights_digest(tmp_path)
    assert weights_digest(tmp_path) == old
    (tmp_path / "README.md").write_text("a card changes no answer")
    assert weights_digest(tmp_path) == old
    (tmp_path / "model.safetensors").write_bytes(b"new weights")
    assert weights_digest(tmp_path) != old


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no .*safetensors in it"):
        weights_digest(tmp_path)


def test_the_key_depends_on_weights_and_on_every_setting() -> None:
    keys = {evaluation_key(w, {"temperature": t}) for w in ("w1", "w2") for t in (0.0, 1.0)}
    assert len(keys) == 4
