"""A small project of its own: two real commands, their configuration and a chain of three steps over them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

JOIN = """
import os, sys, time
from dataclasses import dataclass, field
from pathlib import Path
from omegaconf import MISSING
from conf.command import command
from conf.errors import InputError
from conf.provenance import write_provenance
from toy.text import decorate

@dataclass
class JoinOptions:
    files: list[str] = MISSING
    output: str = MISSING
    mark: str = "-"
    count: int = 1
    stage: str = ""
    sign: bool = False

@command("join", schema=JoinOptions, directory="output")
def main(config):
    output = Path(config.output)
    print("joining", len(config.files), "files", flush=True)
    # By the environment, not by options: a file that an option names is an input.
    go, fail = Path(os.environ["TOY_GO"]), Path(os.environ["TOY_FAIL"])
    if config.stage and fail.exists():
        print("a line before the end")
        sys.exit(7)
    output.mkdir(parents=True, exist_ok=True)
    with (output / "attempts").open("a") as handle:
        handle.write("x")
    if config.stage and not go.exists():
        (output / "waiting").write_text(str(os.getpid()))
        child = os.fork()
        if child == 0:
            os.execvp("sleep", ["sleep", "600"])
        (output / "child").write_text(str(child))
        while not go.exists():
            time.sleep(0.05)
    lost = [name for name in config.files if not Path(name).is_file()]
    if lost:
        raise InputError(f"there is no file {lost[0]}")
    if config.sign:
        write_provenance(output, config, inputs={}, seeds={})
    text = config.mark.join(Path(name).read_text() for name in config.files)
    (output / "text").write_text(decorate(text) * config.count)

if __name__ == "__main__":
    main()
"""
TEXT = """
def decorate(text):
    return text + "."
"""
CHAIN = """
name: toy
steps:
  last:
    command: toy.join
    needs: [middle]
    options:
      files: ["${run_dir}/middle/text"]
      output: ${run_dir}/last
      mark: "a, b='c'"
  middle:
    command: toy.join
    needs: [first]
    options:
      files: ["${run_dir}/first/text", raw/extra.txt]
      output: ${run_dir}/middle
      stage: raw
  first:
    command: toy.join
    options:
      files: [raw/a.txt, raw/b.txt]
      output: ${run_dir}/first
"""
CONFIG = 'files: ???\noutput: ???\nmark: "-"\ncount: 1\nstage: ""\nsign: false\n'


class Toy:
    """The toy project in a folder, and the command line to run its chain."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / "runs" / "toy"
        self.go = folder / "go"
        self.fail = folder / "fail"
        self.go.touch()
        for name, text in {
            "src/toy/__init__.py": "",
            "src/toy/join.py": JOIN,
            "src/toy/text.py": TEXT,
            "src/toy/unused.py": "",
            "raw/a.txt": "A",
            "raw/b.txt": "B",
            "raw/extra.txt": "E",
            "conf/join.yaml": CONFIG,
            "conf/chain/toy.yaml": CHAIN,
        }.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def arguments(self, *overrides: str) -> list[str]:
        return [sys.executable, "-m", "slurm.submit", "--config-dir", "conf", "chain=toy", *overrides]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": f"{self.folder / 'src'}:{REPOSITORY}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TOY_GO": str(self.go),
            "TOY_FAIL": str(self.fail),
        }

    def submit(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(*overrides),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *overrides: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.arguments(*overrides),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def attempts(self) -> dict[str, int]:
        """How often the outputs that lie there now were written to, by step."""
        return {name: len((self.run_dir / name / "attempts").read_text()) for name in ("first", "middle", "last")}

    def runs(self) -> dict[str, str]:
        """The identity of each step's last complete run."""
        return {
            name: json.loads((self.run_dir / "steps" / f"{name}.json").read_text())["run"]
            for name in ("first", "middle", "last")
        }

    @staticmethod
    def wait_for(path: Path, seconds: float = 30.0) -> str:
        """The text of a file, once there is one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if path.exists() and path.read_text():
                return path.read_text()
            time.sleep(0.05)
        raise AssertionError(f"{path} did not appear within {seconds} s")

    @staticmethod
    def is_alive(pid: int) -> bool:
        """Whether a process runs (a zombie does not)."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
        except OSError:
            return False
