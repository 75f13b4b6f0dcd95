"""The words of the playground: what becomes one token each in its tiny tokenizer."""

from __future__ import annotations

from videorl.playground.questions import PLACES, QUESTION_TEXTS, VALUES

INSTRUCTION = "Answer the multiple-choice question. Reason inside <think>...</think>, then give the final letter."
LETTERS = "ABCDEF"
TRACE_WORDS = (
    "I look at the whole video from its start to its end and note what each second shows in it. "
    "The first second third last one is clip screen bar moves grey , . so answer that this which option for matches "
    "correct therefore must be pattern colour frame frames all in turn times flash flashes has been same with"
)
CHAT_WORDS = ("user", "assistant", "system", "\n", "\n\n", "...", ",", ".", *LETTERS, *"0123456789", " seconds>")


def _words(text: str) -> set[str]:
    bare = text.replace("<think>", " ").replace("</think>", " ").split()
    return {*bare, *(" " + word for word in bare)}


WORDS: tuple[str, ...] = tuple(
    sorted(
        {
            *CHAT_WORDS,
            *(f"<{tenths / 10:.1f}" for tenths in (2, 13, 14, 25, 36)),  # times of a whole clip's frame pairs
            *(f"{letter}. {value}" for letter in LETTERS for value in VALUES),
            *_words(" ".join((INSTRUCTION, TRACE_WORDS, *QUESTION_TEXTS, *VALUES, *PLACES))),
        }
    )
)
