import numpy as np
import torch

from videorl.batching.layout import BranchLayout
from videorl.batching.row import pack
from videorl.types import Branch, TrainGroup


def branch(tokens: list[int], advantage: float = 1.0, version: int = 0) -> Branch:
    n = len(tokens)
    return Branch(np.array(tokens, np.int32), -np.arange(n, dtype=np.float32), np.full(n, version, np.int32), advantage)


TWO = (
    TrainGroup("a", np.array([1, 2, 3], np.int32), (), (branch([10, 11], 1.0, 4), branch([12], -1.0, 5))),
    TrainGroup("b", np.array([4, 5], np.int32), (), (branch([13, 14, 15], 0.5, 5),)),
)
# Group a has a video: its positions end at 1 although it has three tokens.
POSITIONS = [torch.tensor([[0, 1, 1], [0, 1, 1], [0, 1, 0]]), torch.arange(2).expand(3, -1)]


def test_each_response_token_is_predicted_by_the_token_before_it_or_by_the_prompts_last():
    row = pack(TWO, POSITIONS, fresh_version=5)
    assert row.token_ids.tolist() == [1, 2, 3, 10, 11, 12, 4, 5, 13, 14, 15]
    assert row.targets.tolist() == [10, 11, 12, 13, 14, 15]
    assert row.token_ids[row.predictors].tolist() == [3, 10, 3, 5, 13, 14]


def test_branches_go_on_after_the_prompts_largest_position_not_after_its_length():
    row = pack(TWO, POSITIONS, fresh_version=5)
    assert row.position_ids[0].tolist() == [0, 1, 1, 2, 3, 2, 0, 1, 2, 3, 4]
    assert row.position_ids[2].tolist() == [0, 1, 0, 2, 3, 2, 0, 1, 2, 3, 4]


def test_what_a_token_is_worth_follows_its_branch():
    row = pack(TWO, POSITIONS, fresh_version=5)
    assert row.advantages.tolist() == [1, 1, -1, 0.5, 0.5, 0.5]
    assert row.branch.tolist() == [0, 0, 1, 2, 2, 2]
    assert row.fresh.tolist() == [False, False, True, True, True, True]
    assert row.old_logprobs.tolist() == [0, -1, 0, 0, -1, -2]
    assert not pack(TWO, POSITIONS, fresh_version=None).fresh.any()


def test_the_mask_shows_a_branch_its_prompt_and_itself_only():
    mask = BranchLayout.of([(2, [2, 1]), (1, [1])]).dense_mask(torch.device("cpu")).int().tolist()
    assert mask == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],  # first branch
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 0],  # second branch: not its sibling
        [0, 0, 0, 0, 0, 1, 0],  # the other group
        [0, 0, 0, 0, 0, 1, 1],
    ]


def test_varlen_indices_name_the_keys_that_the_mask_shows():
    layout = BranchLayout.of([(3, [2, 4]), (5, [1]), (2, [3, 3, 1])])
    mask, index = layout.dense_mask(torch.device("cpu")), layout.varlen(torch.device("cpu"))
    seen = torch.zeros_like(mask)
    prompts = zip(index.prompt_ends, index.prompt_ends[1:], strict=False)
    calls = [(index.prompts[a:b], index.prompts[a:b]) for a, b in prompts]
    ends = zip(index.query_ends, index.query_ends[1:], index.key_ends, index.key_ends[1:], strict=False)
    calls += [(index.queries[a:b], index.keys[c:d]) for a, b, c, d in ends]
    for queries, keys in calls:
        behind = len(keys) - len(queries)  # causal from the bottom right
        for i, query in enumerate(queries):
            seen[query, keys[: behind + i + 1]] = True
    assert torch.equal(seen, mask)
    assert (index.longest_prompt, index.longest_query, index.longest_key) == (5, 4, 7)
