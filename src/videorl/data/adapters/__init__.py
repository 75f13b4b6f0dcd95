"""Every known format, in the order in which they are tried. A new one is a function with @adapter and a line here."""

from videorl.data.adapters.base import Adapter, Draft, Row
from videorl.data.adapters.benchmarks import perceptioncomp, video_holmes, video_mme
from videorl.data.adapters.classic import next_qa, perception_test, star
from videorl.data.adapters.easyr1 import easyr1
from videorl.data.adapters.llava_video import llava_video
from videorl.data.adapters.ms_swift import ms_swift
from videorl.data.adapters.normalised import normalised
from videorl.data.adapters.verl import verl
from videorl.data.adapters.video_r1 import video_r1

ADAPTERS: tuple[Adapter, ...] = (
    normalised,
    verl,
    video_r1,
    easyr1,
    ms_swift,
    llava_video,
    next_qa,
    star,
    video_mme,
    perceptioncomp,
    video_holmes,
    perception_test,
)

__all__ = ["ADAPTERS", "Adapter", "Draft", "Row"]
