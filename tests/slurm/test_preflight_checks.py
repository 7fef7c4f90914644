"""What a preflight makes of what was found on a cluster."""

from typing import Any

import pytest

from slurm.preflight_checks import (
    Check,
    account_check,
    clocks_check,
    network_checks,
    node_checks,
    partition_check,
    table,
    versions_check,
)

PARTITIONS = """\
PartitionName=main AllowGroups=ALL Default=YES MaxNodes=UNLIMITED MaxTime=2-00:00:00 State=UP TotalNodes=8
PartitionName=small AllowGroups=ALL Default=NO MaxNodes=1 MaxTime=1:00:00 State=UP TotalNodes=8
PartitionName=old AllowGroups=ALL Default=NO MaxNodes=UNLIMITED MaxTime=1:00:00 State=DRAIN TotalNodes=8
"""
VERSIONS = {"python": "3.11.7", "code": "abc", "torch": "2.9", "deepspeed": "0.19"}


def report(node: str, **more: Any) -> dict[str, Any]:
    found = {
        "node": node, "versions": VERSIONS, "gpus": 2, "gpu_names": ["H100"], "free_bytes": 1 << 40,
        "free_inodes": 1 << 20, "scratch_free_bytes": 1 << 35, "unseen": [], "renaming": None,
    }  # fmt: skip
    return found | more


def failures(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.failure for check in checks if check.failure is not None}


@pytest.mark.parametrize(
    ("wanted", "nodes", "words"),
    [
        ("main", 8, None),
        (None, 8, None),
        ("gpu", 1, "'gpu', which this cluster does not have: choose one of main, old, small"),
        ("small", 2, "cluster.nodes is 2, but a job of partition 'small' may have 1 at most"),
        ("main", 9, "may have 8 at most"),
        ("old", 1, "partition 'old' must be UP to start jobs, but is DRAIN"),
    ],
)
def test_a_partition_is_there_and_takes_so_many_nodes(wanted: str | None, nodes: int, words: str | None) -> None:
    check = partition_check(wanted, PARTITIONS, nodes)
    assert (check.failure is None) if words is None else (words in str(check.failure))


def test_a_cluster_without_a_default_partition_needs_one_named() -> None:
    assert "no default partition" in str(partition_check(None, PARTITIONS.replace("YES", "NO"), 1).failure)


def test_an_account_is_the_users_own_where_accounts_are_kept() -> None:
    assert account_check("nlp", "nlp\nvision\n").verdict == "ok"
    assert "'bio', which is not the user's: choose one of nlp, vision" in str(
        account_check("bio", "nlp\nvision\n").failure
    )
    assert account_check("nlp", None).verdict == "-"
    assert "has no account" in str(account_check(None, "").failure)


def test_nodes_that_agree_pass_every_check() -> None:
    checks = node_checks({0: report("a"), 1: report("b")}, 2, 2, "abc", "/runs")
    assert [check.verdict for check in checks] == ["ok"] * 5


def test_a_node_that_is_not_seen_or_does_not_see_is_said() -> None:
    found = failures(node_checks({0: report("a")}, 2, 2, "abc", "/runs"))
    assert set(found) == {"shared files"} and "of 2 nodes 1 left nothing there" in found["shared files"]
    found = failures(node_checks({0: report("a", unseen=[1]), 1: report("b")}, 2, 2, "abc", "/runs"))
    assert "after a minute a did not see those of b" in found["shared files"]


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("atomic rename", {"renaming": "parts of two files were seen as one"}, "on b parts of two files"),
        ("space", {"free_bytes": 1 << 30}, "at least 10 GiB should be free where '/runs' lies, but 1.0 are"),
        ("space", {"free_inodes": 12}, "10,000 more files"),
        ("space", {"scratch_free_bytes": 1 << 20}, "free in /tmp"),
        ("GPUs", {"gpus": 1}, "the 2 GPUs of a node that were asked for, but sees 1 on b"),
        ("versions", {"versions": VERSIONS | {"torch": "2.8"}}, "the same torch, but have 2.9 on a, 2.8 on b"),
    ],
)
def test_what_one_node_lacks_is_one_sentence(name: str, more: dict[str, Any], words: str) -> None:
    found = failures(node_checks({0: report("a"), 1: report("b", **more)}, 2, 2, "abc", "/runs"))
    assert set(found) == {name} and words in found[name]


def test_nodes_run_the_code_of_the_machine_that_submits_and_have_what_it_needs() -> None:
    assert "code of the machine that submits (new), but run another (abc)" in str(
        versions_check({"a": VERSIONS}, "new").failure
    )
    lacking = VERSIONS | {"deepspeed": "none"}
    assert "must have deepspeed, but has not" in str(versions_check({"a": lacking}, "abc").failure)


def test_clocks_agree_to_a_second() -> None:
    assert clocks_check({"a": 0.0, "b": -0.4, "c": 0.5}).failure is None
    assert "c is 3.5 s ahead of b" in str(clocks_check({"a": 0.0, "b": -0.5, "c": 3.0}).failure)


def test_ranks_that_do_not_meet_or_add_up_wrong_fail_the_network() -> None:
    found = {"backend": "nccl", "ranks": 4, "right": True, "megabytes": 1024, "seconds": 0.5, "clocks": {"a": 0.0}}
    network, clocks = network_checks(found, [], "it ended COMPLETED")
    assert network.found == "nccl, 4 ranks, 1024 MiB in 500.0 ms, 3.00 GiB/s a rank" and clocks.failure is None
    assert "must give 4 everywhere" in str(network_checks(found | {"right": False}, [], "")[0].failure)
    failed = [{"rank": 3, "error": "later"}, {"rank": 1, "error": "DistNetworkError: no route"}]
    assert "(rank 1 says: DistNetworkError: no route)" in str(network_checks(None, failed, "")[0].failure)
    assert "(it ended TIMEOUT)" in str(network_checks(None, [], "it ended TIMEOUT")[0].failure)


def test_the_table_tells_what_passed_what_failed_and_what_was_not_made() -> None:
    text = table([Check("partition", "main"), Check("GPUs", "0", "none"), Check("clocks", "", done=False)])
    assert text.splitlines() == ["  partition  ok      main", "  GPUs       FAILED  0", "  clocks     -"]
