"""A real Slurm on one machine: munge, slurmctld and some slurmd with fake GPUs, in a folder and on ports of its own.

    with SlurmLab(nodes=2) as lab:
        job = lab.sbatch("slurm/pretrain.sbatch", "experiment=tiny", ..., cwd=REPOSITORY)
        assert lab.wait(job) == "COMPLETED"

Each node is a namespace of processes with a host name of its own, so that it can be switched off whole. Several labs
may run side by side. Needs Debian and root (`reason_to_skip`); everything ends with the process that started it.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

PACKAGES = ("slurm-wlm", "munge", "procps", "util-linux")
# States in which a job has not come to its end.
UNFINISHED = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "PREEMPTED", "SUSPENDED")
_PR_SET_PDEATHSIG = 1
_CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd.%n
MailProg=/bin/true
ProctrackType=proctrack/{track}
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
FirstJobId={first_job}
SchedulerParameters=sched_interval=1,bf_interval=1,bf_continue
SlurmdTimeout=10
KillWait=5
ReturnToService=2
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES PriorityTier=10 MaxTime=INFINITE State=UP
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=10 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=100 PreemptMode=OFF MaxTime=INFINITE State=UP
"""
# The node's process number 1. Not slurmd itself: it would not reap the processes that tasks leave behind.
_NODE = """
hostname "$1"; mount --bind "$2" /etc/hosts; slurmd -N "$1" || exit 1
while :; do sleep 3600 & wait $!; done
"""


def reason_to_skip() -> str | None:
    """Why there can be no lab here, as a sentence, or None. Installs Slurm where it is missing."""
    if sys.platform != "linux" or shutil.which("apt-get") is None:
        return "tests on a real Slurm need Debian, where apt can install it"
    if os.geteuid() != 0:
        return "tests on a real Slurm must run as root, for its daemons start jobs as other users"
    with Path(tempfile.gettempdir(), "palimpsest-slurm-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process installs, the others find it done
        if all(shutil.which(program) for program in ("slurmctld", "slurmd", "munged", "unshare")):
            return None
        apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq"]
        for words in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run([*apt, *words], capture_output=True, text=True, env=environment, check=False)
            if done.returncode:
                return f"apt could not install Slurm: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}"
    return None


class SlurmLab:
    """A cluster of `nodes`, each with `cpus` and `gpus` that exist in name only; see the module."""

    def __init__(self, nodes: int = 2, cpus: int = 8, gpus: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
        # Control groups are known by the node's name, so those of two labs must differ.
        name = f"n{random.SystemRandom().randrange(1000, 10000)}x"
        self.nodes = [f"{name}{number}" for number in range(1, nodes + 1)]
        self._cpus, self._gpus = cpus, gpus
        self._port = _free_ports(nodes + 1)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            # Nothing of a job that these tests may run in.
            **{key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))},
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    def __enter__(self) -> Self:
        try:
            self._write_configuration()
            key, sock = self.folder / "munge.key", self.folder / "munge.sock"
            key.write_bytes(os.urandom(128))
            key.chmod(0o600)
            self._start(
                "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}",
                f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed",
                f"--log-file={self.folder}/log/munged",
            )  # fmt: skip
            _until(sock.exists, 20, "munged did not start")
            self.start_controller()
            for node in self.nodes:
                self.node_on(node)
            self.wait_for_nodes()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything at once and remove the folder."""
        for name in reversed(list(self._daemons)):
            self._kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: str, cwd: Path | None = None, **environment: str) -> str:
        """Return what a command of Slurm says; it must end well."""
        done = subprocess.run(
            words, cwd=cwd, env=self.environment | environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def sbatch(self, *words: str, cwd: Path, **environment: str) -> int:
        """Submit and return the job's number."""
        return int(self.run("sbatch", "--parsable", *words, cwd=cwd, **environment))

    def state(self, job: int) -> str:
        """The state of a job, such as RUNNING."""
        return self.run("squeue", "--states=all", "--noheader", f"--jobs={job}", "--format=%T")

    def wait(self, job: int, seconds: float = 100.0) -> str:
        """Wait for the end of a job and return its state."""
        _until(lambda: self.state(job) not in UNFINISHED, seconds, f"job {job} did not end")
        return self.state(job)

    def wait_for_state(self, job: int, state: str, seconds: float = 60.0) -> None:
        """Wait until a job is in a state."""
        _until(lambda: self.state(job) == state, seconds, f"job {job} did not become {state}")

    def start_requeued(self, job: int) -> None:
        """Have a requeued job start now and not after Slurm's two minutes, which its former life needs to end."""
        self.wait_for_state(job, "PENDING")
        time.sleep(3.0)  # a late kill meant for the former life would hit the new one
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now")

    def start_controller(self) -> None:
        """Start slurmctld."""
        self._start("slurmctld", "-D")
        _until(lambda: _ends_well("scontrol", "ping", environment=self.environment), 20, "slurmctld did not start")

    def kill_controller(self) -> None:
        """Kill slurmctld."""
        self._kill("slurmctld")

    def node_on(self, node: str) -> None:
        """Boot a node."""
        self._start("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts",
                    "bash", "-c", _NODE, "init", node, str(self.folder / "hosts"), name=node)  # fmt: skip

    def node_off(self, node: str) -> None:
        """Cut a node's power: all that runs on it is killed."""
        self._kill(node)

    def hide(self, node: str, path: Path) -> None:
        """Give a node a folder of its own in the place of one that all share, empty at first."""
        self.on_node(node, "mount", "-t", "tmpfs", "none", str(path))

    def unhide(self, node: str, path: Path) -> None:
        """Let a node see the shared folder again."""
        self.on_node(node, "umount", "--lazy", str(path))

    def on_node(self, node: str, *words: str) -> str:
        """Run a command on a node, in no job."""
        init = psutil.Process(self._daemons[node].pid).children()[0].pid
        return self.run("nsenter", f"--target={init}", "--mount", "--pid", "--uts", *words)

    def ranks_on(self, node: str, rank: int) -> list[int]:
        """Process numbers (of this machine) of a rank's python on a node."""
        node_init = self._daemons[node].pid
        found = []
        for process in psutil.Process(node_init).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                is_rank = process.environ().get("SLURM_PROCID") == str(rank) and "-m" in process.cmdline()
                if is_rank and "python" in process.name():
                    found.append(process.pid)
        return found

    def wait_for_nodes(self, seconds: float = 30.0) -> None:
        """Wait until every node takes jobs."""

        def ready() -> bool:
            states = self.run("sinfo", "--noheader", "--partition=main", "--Node", "--format=%T").split()
            return len(states) == len(self.nodes) and set(states) <= {"idle", "mixed", "allocated"}

        _until(ready, seconds, "the nodes did not come up")

    def _write_configuration(self) -> None:
        for name in ("state", "spool", "log"):
            (self.folder / name).mkdir()
        # A file of GPUs must name devices.
        for gpu in range(self._gpus):
            os.mknod(self.folder / f"gpu{gpu}", 0o600 | 0o020000, os.makedev(1, 3))
        # As on a cluster, a step's processes are known by a control group, where there may be one.
        track = "cgroup" if os.access("/sys/fs/cgroup/freezer", os.W_OK) else "linuxproc"
        lines = [
            _CONFIGURATION.format(
                folder=self.folder,
                host=socket.gethostname().split(".")[0],
                port=self._port,
                track=track,
                first_job=random.SystemRandom().randrange(1000, 9000),
            )
        ]
        hosts = [Path("/etc/hosts").read_text()]
        for number, node in enumerate(self.nodes, start=1):
            address = f"127.0.1.{number}"
            hosts.append(f"{address} {node}\n")
            lines.append(
                f"NodeName={node} NodeHostname={node} NodeAddr={address} Port={self._port + number} "
                f"CPUs={self._cpus} RealMemory=64000 Gres=gpu:{self._gpus}\n"
            )
        (self.folder / "slurm.conf").write_text("".join(lines))
        (self.folder / "hosts").write_text("".join(hosts))
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{self._gpus - 1}]\n")
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
        )

    def _start(self, *words: str, name: str | None = None) -> None:
        name = name or words[0]
        output = (self.folder / "log" / f"{name}.out").open("ab")
        self._daemons[name] = subprocess.Popen(
            words,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )

    def _kill(self, name: str) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.kill()
            daemon.wait()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those of jobs (20000 and more)."""
    for start in random.SystemRandom().sample(range(16000, 19000, 10), 100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(start, start + count):
                stack.enter_context(socket.socket()).bind(("", port))
            return start
    raise AssertionError("no free ports for a Slurm lab between 16000 and 19000")


def _ends_well(*words: str, environment: Mapping[str, str]) -> bool:
    return subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0


def _until(condition: object, seconds: float, otherwise: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{otherwise} within {seconds:g} s"
        time.sleep(0.1)
