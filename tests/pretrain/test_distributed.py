import socket
import sys

import pytest
import torch

from conf.errors import InputError
from pretrain.distributed import threads_of_a_rank
from pretrain.launch import usable_cores
from tests.helpers.ranks import run_on_ranks


def test_threads_are_what_was_asked_for_or_an_even_share():
    assert threads_of_a_rank({"OMP_NUM_THREADS": "3", "SLURM_CPUS_PER_TASK": "8"}, 2) == 3
    assert threads_of_a_rank({"SLURM_CPUS_PER_TASK": "8"}, 2) == 8
    assert threads_of_a_rank({}, 1) == usable_cores()
    assert threads_of_a_rank({}, 10**6) == 1


def exchange(group):
    """Run on each rank: a sum, a value and an error from rank 0, and a fact that differs."""
    rank = group.ranks.rank
    found = {"sum": group.sum([rank + 1.0, 0.5]), "value": group.from_main(lambda: {"from": rank})}

    def refuse():
        raise InputError("only rank 0 sees why")

    for name, call in (
        ("refusal", lambda: group.from_main(refuse)),
        ("difference", lambda: group.agree({"seed": 0, "data": f"hash {rank}"})),
    ):
        with pytest.raises(InputError) as caught:
            call()
        found[name] = str(caught.value)
    group.agree({"seed": 0})
    found["maximum"] = group.maximum([float(rank), -float(rank)])
    found["gathered"] = group.gather({"rank": rank})
    found["mine"] = group.together(lambda: f"result of {rank}")

    def only_here():
        if rank == 1:
            raise OSError("no such file")

    with pytest.raises(InputError) as caught:
        group.together(only_here)
    found["together"] = str(caught.value)
    from deepspeed.runtime.zero.utils import is_zero_supported_optimizer

    found["supported"] = is_zero_supported_optimizer(torch.optim.SGD([torch.zeros(1)], lr=1.0))
    found["compiler"] = "torch._inductor.compile_fx" in sys.modules
    return found


def test_ranks_exchange_values_and_fail_together():
    results = run_on_ranks("tests.pretrain.test_distributed:exchange", ranks=2)
    assert [result.pop("mine") for result in results] == ["result of 0", "result of 1"]
    assert results[0] == results[1]
    assert results[0]["maximum"] == [1.0, 0.0] and results[0]["gathered"] == [{"rank": 0}, {"rank": 1}]
    assert results[0]["together"] == f"on rank 1 ({socket.gethostname()}): no such file"
    assert results[0]["sum"] == [3.0, 1.0] and results[0]["value"] == {"from": 0}
    assert results[0]["refusal"] == "only rank 0 sees why"
    # What DeepSpeed asks of every optimiser costs no second of imports.
    assert results[0]["supported"] is False and results[0]["compiler"] is False
    assert "'data' is 'hash 0' on rank 0 and 'hash 1' on rank 1" in results[0]["difference"]
