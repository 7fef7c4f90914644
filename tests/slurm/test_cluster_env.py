"""What bash makes of the file that `render` writes."""

import subprocess
import sys
from pathlib import Path

from slurm.cluster_env import render
from slurm.slurm_settings import SlurmSettings


def after_reading(folder: Path, settings: SlurmSettings, say: str, **environment: str) -> subprocess.CompletedProcess:
    (folder / "cluster.env").write_text(render(settings, "python -m slurm.submit"))
    script = f"here=/code/slurm PALIMPSEST_JOB_DIRECTORY=/logs/x.ranks; source cluster.env && {say}"
    words = ["bash", "-c", f"srun_options=() wrapper=(); {script}"]
    return subprocess.run(
        words, cwd=folder, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False
    )


def test_values_reach_a_job_as_they_are_written_and_may_name_others(tmp_path):
    odd = 'a "b" `c` \\d'
    settings = SlurmSettings(environment={"OMP_NUM_THREADS": {"value": "$SLURM_CPUS_PER_TASK", "why": "w"}, "ODD": odd})
    done = after_reading(tmp_path, settings, 'echo "$OMP_NUM_THREADS|$ODD"', SLURM_JOB_ID="1", SLURM_CPUS_PER_TASK="3")
    assert (done.stdout, done.stderr) == (f"3|{odd}\n", "")
    assert "# w\nexport OMP_NUM_THREADS=" in (tmp_path / "cluster.env").read_text()


def test_a_login_shell_gets_what_sbatch_needs_and_nothing_else(tmp_path):
    settings = SlurmSettings(partition="gpu", account="a b", modules=["cuda"], environment={"X": 1})
    done = after_reading(tmp_path, settings, 'echo "$SBATCH_PARTITION|$SBATCH_ACCOUNT|$SBATCH_QOS|$X"')
    assert (done.stdout, done.stderr) == ("gpu|a b||\n", "")


def test_a_module_or_environment_that_is_not_there_fails_the_reading(tmp_path):
    for settings in (SlurmSettings(modules=["cuda"]), SlurmSettings(venv="/nowhere")):
        assert after_reading(tmp_path, settings, "true", SLURM_JOB_ID="1").returncode != 0


def test_a_container_stands_before_python_or_in_the_options_of_srun(tmp_path):
    say = 'printf "<%s>" "${wrapper[@]}" "${srun_options[@]}"'
    image, mounts = "/images/torch 2.sif", ["/data"]
    settings = SlurmSettings(container=image, container_mounts=mounts)
    done = after_reading(tmp_path, settings, say, SLURM_JOB_ID="1")
    binds = "".join(f"<--bind><{folder}>" for folder in (tmp_path, "/code", "/logs", "/data"))
    assert done.stdout == f"<apptainer><exec><--nv><--pwd><{tmp_path}>{binds}<{image}>"
    settings = SlurmSettings(container=image, container_mounts=mounts, container_runtime="pyxis")
    done = after_reading(tmp_path, settings, say, SLURM_JOB_ID="1")
    pairs = ",".join(f"{folder}:{folder}" for folder in (tmp_path, "/code", "/logs", "/data"))
    expected = f"<--container-image={image}><--container-mounts={pairs}><--container-workdir={tmp_path}>"
    assert done.stdout == expected


def test_the_command_writes_the_file_with_the_reason_of_every_setting(tmp_path):
    words = ["-m", "slurm.submit", "render=cluster.env", "cluster=slurm", "cluster.network_interface=ib0"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "cluster.env").read_text().splitlines()
    exports = [number for number, line in enumerate(lines) if line.startswith("export ")]
    assert len(exports) > 5
    assert all(lines[number - 1].startswith("# ") for number in exports)


def test_render_refuses_a_cluster_that_is_this_machine(tmp_path):
    words = ["-m", "slurm.submit", "render=cluster.env", "cluster=local"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: render writes the environment of a Slurm cluster's jobs: add cluster=slurm" in done.stderr
