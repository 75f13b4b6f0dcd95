"""What gives frames, to whoever needs pixels."""

from __future__ import annotations

from typing import Protocol

from videorl.types import FrameRef, Frames, Media


class FrameSource(Protocol):
    """Frames by media or by key. Thread-safe and blocking; call it from a thread where an event loop runs."""

    def reference(self, media: Media) -> FrameRef:
        """The key of this medium's frames under the run's sampling (and the row's own limits).

        Raises:
            QuestionDropped: VIDEO_MISSING.
        """
        ...

    def load(self, ref: FrameRef) -> Frames:
        """The frames, from the store where it has them, else decoded now and stored.

        Raises:
            QuestionDropped: VIDEO_MISSING, VIDEO_BROKEN, DECODE_TIMEOUT or DECODE_CRASH, with a line for a person.
        """
        ...
