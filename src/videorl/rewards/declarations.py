"""How a letter is declared in running text: "the answer is B", "option B", and the same in other languages.

Text comes in with its white space collapsed (`answers.plain`), so one optional space is all that a pattern allows for;
that also keeps the search linear on hostile input.
"""

from __future__ import annotations

import re

# What stands before the letter, one entry a language; docs/rewards.md lists them with examples.
_INTRODUCTIONS = {
    "English": r"\banswer ?(?:(?:is|was)\b|:|=) ?:?|\b(?:option|choice)\b ?(?:is\b|:|=)? ?:?",
    "Chinese": r"答案 ?(?:应该是|应为|选择|是|为|选|:|=)? ?:?|选项? ?(?:择|是|为|:)? ?:?",
    "Japanese": r"(?:答え|正解|回答)(?:は|:) ?、?:?",
    "Korean": r"(?:정답|답)(?:은|:) ?:?",
    "German": r"\bantwort ?(?:(?:ist|lautet)\b|:) ?:?",
    "French": r"\bréponse ?(?:est\b|:) ?:?|\bchoix\b ?:?",
    "Spanish": r"\brespuesta ?(?:correcta )?(?:es\b|:) ?:?|\bopción\b ?:?",
    "Portuguese": r"\bresposta ?(?:correta )?(?:é\b|:) ?:?|\bopção\b ?:?",
    "Italian": r"\brisposta ?(?:corretta )?(?:è\b|:) ?:?|\bopzione\b ?:?",
    "Russian": r"\bответ ?(?:[—–:-]|это\b) ?:?|\bвариант\b ?:?",
}

# What may follow an answer without punctuation. French "car" is missing on purpose: "A car" is an English noun.
_REASONS = r"\b(?:because|since|as|due|given|weil|parce que|porque|perché|потому что)\b|因为|なので|から"
_CLOSINGS = r"です|である|だ|입니다|이다|选项"
_ENDS = rf"$|\n|[,;:!?)\]}}\"”»。、…—–]|\.(?![A-Za-z0-9])|- |(?i:{_REASONS})|{_CLOSINGS}"

_ITEM = r"[(\[]?[A-Z](?![a-z])[)\]]?"
# Atomic: a separator that could match in two ways would make a long list exponential.
_SEPARATOR = r"(?> ?[,./、;&]? ?(?:(?:and|or)\b|和|或)? ?)"
_LIST = rf"{_ITEM}(?:{_SEPARATOR}{_ITEM})*"
# A bare lower-case "a" in a sentence is the article.
_LOWER = r"[(\[][a-z][)\]]|[b-z](?![a-zA-Z])"

_WHOLE_LETTER = re.compile(r"[(\[{]?([A-Za-z])[)\]}]?[.。]?")
_WHOLE_LIST = re.compile(rf"{_LIST}[.)]?")
_LABEL = re.compile(rf"[(\[]?([A-Z])(?:(?: ?[.)\]:\-–—、])+[ \n]?[^ \n]| ?,? ?(?i:{_REASONS}))")
_DECLARATION = re.compile(
    rf"(?i:{'|'.join(_INTRODUCTIONS.values())}) ?({_LIST}|{_LOWER})(?= ?(?:{_ENDS}))",
)


def whole_letters(text: str) -> str:
    """The letters of a text that is one letter ("B", "(b).") or a list of different ones ("A, B and C"), else none."""
    if letter := _WHOLE_LETTER.fullmatch(text):
        return letter[1].upper()
    listed = _distinct(text) if _WHOLE_LIST.fullmatch(text) else ""
    return listed if len(listed) > 1 else ""


def leading_label(text: str) -> str:
    """The capital that labels what follows: "B. red car", "(B) red car", "B because a car moves"."""
    label = _LABEL.match(text)
    return label[1] if label else ""


def last_declaration(text: str) -> str:
    """The distinct letters that the last declaration names: "B", or "AB" for "the answer is A or B"."""
    named = ""
    for declaration in _DECLARATION.finditer(text):
        named = _distinct(declaration[1])
    return named


def _distinct(listed: str) -> str:
    words_out = re.sub(r"\b(?:and|or)\b", " ", listed)
    return "".join(dict.fromkeys(c for c in words_out.upper() if "A" <= c <= "Z"))
