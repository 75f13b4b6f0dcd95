"""A wrong media root is no reason to train on what happens to be left."""

from __future__ import annotations

from collections import Counter

from videorl.errors import VideorlError
from videorl.types import Drop, DropReason

MEDIA_REASONS = frozenset(
    {DropReason.VIDEO_MISSING, DropReason.VIDEO_BROKEN, DropReason.DECODE_TIMEOUT, DropReason.DECODE_CRASH}
)
MIN_QUESTIONS = 20  # before that a share says nothing


class MediaHealth:
    """Stops the run where more than `max_bad_share` of its questions were dropped for their media."""

    def __init__(self, max_bad_share: float) -> None:
        self._max_bad_share = max_bad_share
        self._questions = 0
        self._bad: Counter[DropReason] = Counter()

    def saw(self, drop: Drop | None) -> None:
        """One more question came back: as a group (None) or dropped.

        Raises:
            VideorlError: the share is passed; the message counts the reasons and shows the last one.
        """
        self._questions += 1
        if drop is None or drop.reason not in MEDIA_REASONS:
            return
        self._bad[drop.reason] += 1
        bad = self._bad.total()
        if self._questions >= MIN_QUESTIONS and bad > self._max_bad_share * self._questions:
            reasons = ", ".join(f"{reason.value} {count}" for reason, count in self._bad.most_common())
            raise VideorlError(
                f"{bad} of {self._questions} questions were dropped for their media ({reasons}), more than "
                f"data.max_bad_share = {self._max_bad_share:g}; the last one: {drop.detail}; "
                f"check data.media_root and data.remap"
            )
