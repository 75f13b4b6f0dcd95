import pytest

from builders_eval import prediction
from videorl.errors import UserError
from videorl.eval.comparison import compare_predictions, render_comparison


def test_rows_are_paired_and_flips_are_named() -> None:
    a = [prediction(0, "A"), prediction(1, "B"), prediction(2, "B"), prediction(3, "C")]
    b = [prediction(0, "B"), prediction(1, "B"), prediction(2, None), prediction(3, "C")]
    found = compare_predictions(a, b)
    column = found.benchmarks["made"]
    assert (column.rows, column.won, column.lost, column.difference) == (4, 1, 1, 0.0)
    assert [(f.id, f.a, f.b, f.won) for f in found.flips] == [("made/0", "A", "B", True), ("made/2", "B", None, False)]


def test_flips_stand_in_the_order_of_their_rows_whichever_was_answered_first() -> None:
    a, b = [prediction(2, "A"), prediction(0, "A")], [prediction(2, "B"), prediction(0, "B")]
    assert [flip.id for flip in compare_predictions(a, b).flips] == ["made/0", "made/2"]


def test_the_macro_difference_weighs_benchmarks_equally() -> None:
    a = [prediction(0, "A", benchmark="x"), *(prediction(i, "B", benchmark="y") for i in range(9))]
    b = [prediction(0, "B", benchmark="x"), *(prediction(i, "B", benchmark="y") for i in range(9))]
    found = compare_predictions(a, b)
    assert found.macro_difference == 0.5
    assert found.all_rows.difference == pytest.approx(0.1)


def test_a_row_that_failed_counts_as_wrong_in_the_pair() -> None:
    found = compare_predictions([prediction(0)], [prediction(0, error="video_broken: x")])
    assert found.benchmarks["made"].lost == 1


def test_rows_of_only_one_evaluation_are_counted() -> None:
    found = compare_predictions([prediction(0), prediction(1)], [prediction(0), prediction(2)])
    assert found.unpaired == 2
    assert "2 rows stand in only one" in render_comparison(found, "A", "B")


def test_evaluations_of_different_benchmarks_cannot_be_compared() -> None:
    with pytest.raises(UserError, match="no row in common"):
        compare_predictions([prediction(0, benchmark="x")], [prediction(0, benchmark="y")])


def test_the_table_shows_difference_interval_and_test() -> None:
    a = [prediction(i, "A") for i in range(6)]
    b = [prediction(i, "B") for i in range(6)]
    text = render_comparison(compare_predictions(a, b), "base", "step 80")
    assert "+1.0000" in text
    assert "0.03125" in text  # 2 · (1/2)^6
    assert text.count("won") >= 6
