"""`python -m slurm.submit preflight=true cluster=...`: is this cluster as a run needs it?

Asks Slurm first, then runs one short job over the nodes asked for (`slurm.preflight_node`), and shows one table. Must
not import `pipeline` or `pretrain`.
"""

import getpass
import json
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from conf.command_line import shell_line
from conf.files import atomic_write_text, prepare_output_directory
from slurm.cluster_env import render
from slurm.preflight_checks import Check, account_check, network_checks, node_checks, partition_check
from slurm.preflight_node import code_hash
from slurm.sbatch_lines import resource_words
from slurm.scheduler import JobState, Refused, Scheduler
from slurm.slurm_cluster import SlurmCluster

MINUTES = 10
POLL_SECONDS = 1.0
NOT_MADE = ("job", "shared files", "atomic rename", "space", "GPUs", "versions", "network", "clocks")


def job_lines(cluster: SlurmCluster, folder: Path) -> list[str]:
    """What `dry_run=true` shows: the sbatch line of the preflight's job."""
    return [shell_line(["sbatch", *_words(cluster, folder), str(folder / "job.sh")])]


def preflight(cluster: SlurmCluster, folder: Path, command: str) -> list[Check]:
    """Make all checks.

    Args:
        cluster: the cluster, with the nodes, GPUs and so on that its runs will ask for.
        folder: where the job and its reports lie: on the file system that runs shall be on.
        command: what was typed, for the head of the environment's file.

    Raises:
        InputError: there are no Slurm programs here, or nothing can be written to the folder.
    """
    scheduler = Scheduler(cluster.controller_seconds)
    accounts = None
    if "(null)" not in (storage := scheduler.setting("AccountingStorageType")) and not storage.endswith("/none"):
        accounts = scheduler.accounts(getpass.getuser())
    checks = [
        partition_check(cluster.partition, scheduler.partitions(), cluster.nodes),
        account_check(cluster.account, accounts),
    ]
    folder = prepare_output_directory(folder).absolute()
    for pattern in ("node-*.json", "network*.json", "*renamed*"):
        for left in folder.glob(pattern):
            left.unlink()
    atomic_write_text(folder / "cluster.env", render(cluster, command))
    atomic_write_text(folder / "job.sh", _script(folder))
    checks.append(_resources(cluster, scheduler, folder))
    if any(check.failure is not None for check in checks):
        return [*checks, *(Check(name, "not made", done=False) for name in NOT_MADE)]
    log, ended = _run(cluster, scheduler, folder)
    reports = {int(path.stem.removeprefix("node-")): _read(path) for path in sorted(folder.glob("node-*.json"))}
    network = _read(folder / "network.json") if (folder / "network.json").is_file() else None
    failures = [_read(path) for path in sorted(folder.glob("network-failed-*.json"))]
    words = f"it ended {ended.state}; its log is {log}"
    sentence = None if ended.state == "COMPLETED" else f"the job must end well, but {words}{_last_lines(log)}"
    return [
        *checks,
        Check("job", f"{ended.state}, {log}", sentence),
        *node_checks(reports, cluster.nodes, cluster.gpus_per_node, code_hash(), str(folder)),
        *network_checks(network, failures, words),
    ]


def _words(cluster: SlurmCluster, folder: Path, time_limit: str = str(MINUTES)) -> list[str]:
    """The options of sbatch."""
    asked = replace(cluster.resources, time=time_limit)
    return [
        "--job-name=preflight",
        f"--nodes={asked.nodes}",
        f"--ntasks-per-node={asked.tasks_per_node}",
        *resource_words(asked),
        "--no-requeue",
        f"--output={str(folder.absolute()).replace('%', '%%')}/preflight-%j.log",
        *asked.extra,
    ]


def _script(folder: Path) -> str:
    """The text of the job: ranks are started as the batch scripts start those of training."""
    here = Path(__file__).resolve().parent
    return "\n".join([
        "#!/bin/bash",
        f"export CLUSTER_ENV={shlex.quote(str(folder / 'cluster.env'))}",
        f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        f"here={shlex.quote(str(here))}",
        'source "$here/job.sh" || exit 1',
        f"run_job slurm.preflight_node {shlex.quote(f'output={folder}')}",
        "",
    ])  # fmt: skip


def _resources(cluster: SlurmCluster, scheduler: Scheduler, folder: Path) -> Check:
    """Whether Slurm would take a job as the configuration asks for it."""
    try:
        said = scheduler.would_take([*_words(cluster, folder, cluster.time), str(folder / "job.sh")])
    except Refused as refusal:
        sentence = (
            f"Slurm must take a job with what the configuration asks for ({cluster.nodes} nodes, each with "
            f"{cluster.gpus_per_node} GPUs, for {cluster.time}), but says: {refusal}; change cluster.nodes, "
            "gpus_per_node, cpus_per_task, time, partition, account, qos or extra"
        )
        return Check("resources", "refused", sentence)
    return Check("resources", said)


def _run(cluster: SlurmCluster, scheduler: Scheduler, folder: Path) -> tuple[Path, JobState]:
    """Submit the job and wait for its end, saying what it waits for; it is cancelled with this process."""
    comment = f"palimpsest-preflight:{time.time_ns():x}"
    words = ["sbatch", "--parsable", f"--comment={comment}", *_words(cluster, folder), str(folder / "job.sh")]
    job = scheduler.submit(words, "preflight", comment)
    log = folder / f"preflight-{job}.log"
    told = ""
    try:
        while True:
            found = scheduler.states([job], comment).get(job, JobState("forgotten by Slurm"))
            if not found.unfinished:
                return log, found
            line = f"job {job}: {found.state.lower()}{f' ({found.reason})' if found.state == 'PENDING' else ''}"
            if line != told:
                print(line, flush=True)
            told = line
            time.sleep(POLL_SECONDS)
    except BaseException:  # Ctrl-C too
        scheduler.cancel([job])
        raise


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _last_lines(log: Path) -> str:
    """What the job said last, indented below a sentence."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
    except OSError:
        return ", which is not seen here: is run_dir on a file system that the nodes share with this machine?"
    return "".join(f"\n    {line}" for line in lines)
