from builders_eval import question
from videorl.eval.probes import blind, permute_options, shuffle_frames


def test_blind_takes_the_media_away_and_nothing_else() -> None:
    assert blind(question()).media == ()
    assert blind(question()).text == question().text


def test_permuted_options_keep_the_right_one_right_under_another_letter() -> None:
    for number in range(50):
        asked = question(number, answer=number % 4)
        permuted = permute_options(asked)
        assert sorted(permuted.options) == sorted(asked.options)
        assert permuted.options[permuted.answer] == asked.options[asked.answer]
        assert permuted.answer != asked.answer


def test_permuting_moves_the_right_answer_to_every_other_place() -> None:
    assert {permute_options(question(n, answer=0)).answer for n in range(60)} == {1, 2, 3}


def test_a_probe_asks_the_same_in_every_evaluation() -> None:
    assert permute_options(question(3)) == permute_options(question(3))
    assert shuffle_frames(question(3)) == shuffle_frames(question(3))


def test_shuffled_frames_are_another_medium_of_the_same_file() -> None:
    (medium,), (plain,) = shuffle_frames(question(3)).media, question(3).media
    assert medium.path == plain.path
    assert medium.shuffle is not None
    assert plain.shuffle is None
