"""How far sampling may run ahead of training: the arithmetic behind `staleness` and `max_lag`.

G groups make a fit step, after which the version rises by one. A group is *outstanding* from its issue until it is
dropped, or trained and the following version is published; it is *untrained* from its issue until it is dropped or
trained. Its lag is the version it is trained at minus the oldest version among its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable


def lag(version: int, oldest: int) -> int:
    """Publications between the oldest token of a group and the fit step, begun at `version`, that trains it."""
    return version - oldest


def may_issue(outstanding: int, bound: int, untrained: int, trainable: int | None) -> bool:
    """Whether one more question may be asked.

    Fewer than `bound` = ⌊(1 + s)·G⌋ groups may be outstanding, and fewer than `trainable` untrained: the groups that
    the fit steps still to come can take (None: no end in sight), so that nothing is sampled in vain before max_steps.
    """
    return outstanding < bound and (trainable is None or untrained < trainable)


def all_in_time(oldest: Iterable[int], version: int, slots: int, groups_per_step: int, max_lag: int) -> bool:
    """Whether every untrained group can still be trained before it is more than `max_lag` versions old.

    `oldest` holds the oldest version o of each untrained group, wherever it is; it has to be trained at a version
    ≤ o + max_lag. `slots` groups can still be trained at `version`, and G = groups_per_step at each version after it.
    Earliest deadline first meets every deadline if, for each k = 0..max_lag, no more groups are due at or before
    version + k than can be trained by then: #{o + max_lag ≤ version + k} ≤ slots + k·G. (What a publication under way
    has already given a newer version counts as current.)

    Taking the batch's groups in order of o keeps this true from batch to batch as long as the in-flight groups that
    are due get the time to finish, and the bound on outstanding groups keeps it true for new ones where s ≤ max_lag.
    """
    due = [0] * (max_lag + 1)
    for o in oldest:
        if o + max_lag < version:
            return False
        due[min(max_lag, o + max_lag - version)] += 1
    total = 0
    for k, count in enumerate(due):
        total += count
        if total > slots + k * groups_per_step:
            return False
    return True
