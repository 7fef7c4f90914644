"""What a preflight makes of what was found: one row a check, one sentence a failure.

Pure functions; must not import `pipeline` or `pretrain`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEAST_FREE_BYTES = 10 << 30
LEAST_SCRATCH_BYTES = 1 << 30
LEAST_FREE_INODES = 10_000
MOST_SECONDS_APART = 1.0


@dataclass(frozen=True)
class Check:
    """One row of the table.

    Attributes:
        name: what was checked.
        found: what was found, in a few words.
        failure: for a check that failed, the sentence that says what was expected, what was found and what to do.
        done: False for one that could not be made.
    """

    name: str
    found: str
    failure: str | None = None
    done: bool = True

    @property
    def verdict(self) -> str:
        """The word for the table."""
        return "FAILED" if self.failure is not None else "ok" if self.done else "-"


def table(checks: Sequence[Check]) -> str:
    """The checks as lines of text, one column under another."""
    widths = max(len(check.name) for check in checks), max(len(check.verdict) for check in checks)
    return "\n".join(
        f"  {check.name:<{widths[0]}}  {check.verdict:<{widths[1]}}  {check.found}".rstrip() for check in checks
    )


def partition_check(wanted: str | None, listing: str, nodes: int) -> Check:
    """Whether there is a partition that takes jobs and has enough nodes.

    Args:
        wanted: its name, or None for the cluster's default.
        listing: what `scontrol --oneliner show partition` says.
        nodes: how many nodes are asked for.
    """
    partitions = {row["PartitionName"]: row for row in map(_pairs, listing.splitlines()) if "PartitionName" in row}
    names = ", ".join(sorted(partitions)) or "none"
    if wanted is None:
        wanted = next((name for name, row in partitions.items() if row.get("Default") == "YES"), None)
        if wanted is None:
            sentence = f"the cluster has no default partition: set cluster.partition to one of its own ({names})"
            return Check("partition", f"no default among {names}", sentence)
    row = partitions.get(wanted)
    if row is None:
        sentence = f"cluster.partition is '{wanted}', which this cluster does not have: choose one of {names}"
        return Check("partition", f"no '{wanted}' among {names}", sentence)
    total, limit = int(row.get("TotalNodes", 0)), row.get("MaxNodes", "UNLIMITED")
    found = f"{wanted}: {row.get('State', '?')}, {total} nodes, time limit {row.get('MaxTime', '?')}"
    if row.get("State") != "UP":
        sentence = f"partition '{wanted}' must be UP to start jobs, but is {row.get('State')}: choose one of {names}"
        return Check("partition", found, sentence)
    most = min(total, int(limit)) if limit.isdigit() else total
    if nodes > most:
        sentence = f"cluster.nodes is {nodes}, but a job of partition '{wanted}' may have {most} at most: ask for fewer"
        return Check("partition", found, sentence)
    return Check("partition", found)


def account_check(wanted: str | None, listing: str | None) -> Check:
    """Whether the account is one of the user's.

    Args:
        wanted: its name, or None for the user's default.
        listing: what `sacctmgr -nP show assoc user=... format=account` says; None where no accounts are kept.
    """
    if listing is None:
        return Check("account", "this cluster keeps no accounts", done=False)
    accounts = sorted({line.split("|")[0] for line in listing.splitlines() if line.strip()})
    names = ", ".join(accounts) or "none"
    if not accounts:
        return Check("account", "none", "the user has no account on this cluster: ask its administrator for one")
    if wanted is not None and wanted not in accounts:
        sentence = f"cluster.account is '{wanted}', which is not the user's: choose one of {names}"
        return Check("account", f"'{wanted}' is not among {names}", sentence)
    return Check("account", wanted or f"the user's default, of {names}")


def node_checks(reports: Mapping[int, Mapping[str, Any]], nodes: int, gpus: int, code: str, folder: str) -> list[Check]:
    """The checks of what the nodes have measured.

    Args:
        reports: by the node's number, what `slurm.preflight_node` wrote.
        nodes: how many nodes the job had.
        gpus: how many GPUs a node must have.
        code: the version of the project's code on the machine that submits.
        folder: where the reports lie.
    """
    missing = [node for node in range(nodes) if node not in reports]
    return [
        _seen(reports, missing, nodes, folder),
        _renaming(reports, nodes, folder),
        _space(reports, folder),
        _gpus(reports, gpus),
        versions_check({report["node"]: report["versions"] for report in reports.values()}, code),
    ]


def versions_check(by_node: Mapping[str, Mapping[str, str]], code: str) -> Check:
    """Whether all nodes have the same versions, and the code of the machine that submits."""
    if not by_node:
        return Check("versions", "no node reported", done=False)
    first = next(iter(by_node.values()))
    found = ", ".join(f"{name} {version}" for name, version in first.items())
    for name in first:
        holders: dict[str, list[str]] = {}
        for node, versions in by_node.items():
            holders.setdefault(versions.get(name, "none"), []).append(node)
        if len(holders) > 1:
            told = ", ".join(f"{version} on {_some(nodes)}" for version, nodes in holders.items())
            sentence = (
                f"all nodes must run the same {name}, but have {told}: let cluster.venv, cluster.modules or "
                "cluster.container name one that every node sees"
            )
            return Check("versions", f"{name}: {told}", sentence)
    lacking = [name for name in ("torch", "deepspeed") if first.get(name) == "none"]
    if lacking:
        sentence = (
            f"the nodes' python must have {' and '.join(lacking)}, but has not: name an environment with the project's "
            "packages by cluster.venv, cluster.modules or cluster.container"
        )
        return Check("versions", found, sentence)
    if first["code"] != code:
        sentence = (
            f"the nodes must run the code of the machine that submits ({code}), but run another ({first['code']}): the "
            "folder of the project must be one that every node sees, and no other be installed"
        )
        return Check("versions", found, sentence)
    return Check("versions", found)


def clocks_check(ahead: Mapping[str, float]) -> Check:
    """Whether the clocks of all nodes agree; `ahead` is how many seconds each is ahead of the first."""
    slow, fast = min(ahead, key=lambda node: ahead[node]), max(ahead, key=lambda node: ahead[node])
    apart = ahead[fast] - ahead[slow]
    found = f"at most {apart:.3f} s apart"
    if apart <= MOST_SECONDS_APART:
        return Check("clocks", found)
    sentence = (
        f"the clocks of the nodes must agree to {MOST_SECONDS_APART:g} s, but {fast} is {apart:.1f} s ahead of {slow}: "
        "ask the administrator to set them by NTP, or leave one out (cluster.extra=[--exclude=NODE])"
    )
    return Check("clocks", found, sentence)


def network_checks(found: Mapping[str, Any] | None, failures: Sequence[Mapping[str, Any]], ended: str) -> list[Check]:
    """The checks of what the ranks have measured together.

    Args:
        found: what the ranks wrote; None where they did not come to that.
        failures: what ranks wrote that failed.
        ended: how the job ended, in words, for ranks that left nothing.
    """
    if found is None:
        first = min(failures, key=lambda one: int(one["rank"]), default=None)
        cause = f"rank {first['rank']} says: {first['error']}" if first is not None else ended
        sentence = (
            f"the ranks must reach each other for an all-reduce, but did not ({cause}): name the network that joins "
            "the nodes by cluster.network_interface (ip addr lists them)"
        )
        return [Check("network", "no all-reduce", sentence), Check("clocks", "no rank compared them", done=False)]
    ranks, seconds = int(found["ranks"]), float(found["seconds"])
    size = found["megabytes"] / 1024
    words = f"{found['backend']}, {ranks} ranks, {found['megabytes']} MiB in {seconds * 1000:.1f} ms"
    if ranks > 1:
        # What each rank's link carries in a ring, which does not depend on the number of ranks.
        words += f", {2 * (ranks - 1) / ranks * size / seconds:.2f} GiB/s a rank"
    wrong: str | None = None
    if not found["right"]:
        wrong = f"an all-reduce of ones over {ranks} ranks must give {ranks} everywhere, but did not: see dmesg and ECC"
    return [Check("network", words, wrong), clocks_check(found["clocks"])]


def _seen(reports: Mapping[int, Mapping[str, Any]], missing: Sequence[int], nodes: int, folder: str) -> Check:
    name = "shared files"
    if missing:
        sentence = (
            f"'{folder}' must lie on a file system that all nodes and this machine share, but of {nodes} nodes "
            f"{len(missing)} left nothing there: choose a run_dir on the shared one (the job's log, if it is there, "
            "says what else stopped them)"
        )
        return Check(name, f"{nodes - len(missing)} of {nodes} nodes", sentence)
    for report in reports.values():
        unseen = report.get("unseen")
        if unseen:
            others = _some([str(reports[node]["node"]) for node in unseen])
            sentence = (
                f"'{folder}' must show a file on all nodes soon after one has written it, but after a minute "
                f"{report['node']} did not see those of {others}: choose a run_dir on a file system that they share"
            )
            return Check(name, f"{report['node']} does not see all", sentence)
    if any("unseen" not in report for report in reports.values()):
        return Check(name, "the nodes were stopped before they compared", done=False)
    return Check(name, f"{nodes} nodes see each other's in {folder}")


def _renaming(reports: Mapping[int, Mapping[str, Any]], nodes: int, folder: str) -> Check:
    name = "atomic rename"
    if len(reports) < nodes or any("renaming" not in report for report in reports.values()):
        return Check(name, "not all nodes came to it", done=False)
    for report in reports.values():
        if report["renaming"] is not None:
            sentence = (
                f"a rename on the file system of '{folder}' must replace a file at once, but on {report['node']} "
                f"{report['renaming']}: choose a run_dir on another (NFS, Lustre, GPFS and CephFS do so; object "
                "stores do not)"
            )
            return Check(name, f"not so on {report['node']}", sentence)
    return Check(name, "")


def _space(reports: Mapping[int, Mapping[str, Any]], folder: str) -> Check:
    if not reports:
        return Check("space", "no node reported", done=False)
    free = min(report["free_bytes"] for report in reports.values())
    counted = [report["free_inodes"] for report in reports.values() if report["free_inodes"] is not None]
    scratch = min(reports.values(), key=lambda report: int(report["scratch_free_bytes"]))
    found = f"{free / 2**30:,.0f} GiB" + (f", {min(counted):,} files" if counted else "")
    found += f"; /tmp {scratch['scratch_free_bytes'] / 2**30:,.0f} GiB"
    sentence = None
    if free < LEAST_FREE_BYTES:
        sentence = (
            f"at least {LEAST_FREE_BYTES >> 30} GiB should be free where '{folder}' lies, but {free / 2**30:.1f} are: "
            "make room, or choose another run_dir"
        )
    elif counted and min(counted) < LEAST_FREE_INODES:
        sentence = (
            f"at least {LEAST_FREE_INODES:,} more files should have place where '{folder}' lies, but {min(counted):,} "
            "have: remove some, or choose another run_dir"
        )
    elif scratch["scratch_free_bytes"] < LEAST_SCRATCH_BYTES:
        sentence = (
            f"at least {LEAST_SCRATCH_BYTES >> 30} GiB should be free in /tmp, for compiled kernels, but on "
            f"{scratch['node']} {scratch['scratch_free_bytes'] / 2**30:.1f} are: set TMPDIR, TRITON_CACHE_DIR and "
            "TORCH_EXTENSIONS_DIR in cluster.environment to another folder of the node"
        )
    return Check("space", found, sentence)


def _gpus(reports: Mapping[int, Mapping[str, Any]], wanted: int) -> Check:
    if not reports:
        return Check("GPUs", "no node reported", done=False)
    if not wanted:
        return Check("GPUs", "none asked for (cluster.gpus_per_node=0)", done=False)
    lacking = [report["node"] for report in reports.values() if report["gpus"] != wanted]
    names = _some(sorted({name for report in reports.values() for name in report["gpu_names"]}))
    if lacking:
        seen = sorted({report["gpus"] for report in reports.values() if report["gpus"] != wanted})
        counts = " or ".join(map(str, seen))
        sentence = (
            f"torch must see the {wanted} GPUs of a node that were asked for, but sees {counts} on {_some(lacking)}: "
            "give it a torch built for the nodes' driver (cluster.venv, cluster.modules), or ask for as many as "
            "there are"
        )
        return Check("GPUs", f"{counts} on {_some(lacking)}", sentence)
    return Check("GPUs", f"{wanted} a node: {names}")


def _some(names: Sequence[str], shown: int = 4) -> str:
    """The first few names."""
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _pairs(line: str) -> dict[str, str]:
    """`A=1 B=2` as a mapping."""
    return dict(re.findall(r"(\w+)=(\S*)", line))
