"""The harness through a real process: what a person sees for each kind of mistake."""

import subprocess
import sys

import pytest

PROGRAM = """
import errno, sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from omegaconf import MISSING
import conf.command
from conf.errors import InputError

conf.command.CONFIG_DIRECTORY = Path(__file__).parent / "conf"

@dataclass
class Options:
    output: str = MISSING
    part: Any = None
    free: Any = None
    names: dict[str, Any] = MISSING
    fail: str = "no"

@conf.command.command("toy", schema=Options, directory="output")
def main(config):
    if config.fail == "input":
        raise InputError("the file 'a' is not text")
    if config.fail == "disk":
        raise RuntimeError("worker failed") from OSError(errno.ENOSPC, "No space left on device", "shards/x.arrow")
    if config.fail == "unwritable":
        raise IsADirectoryError(errno.EISDIR, "Is a directory", "tmp", None, "report.html")
    if config.fail == "fault":
        raise KeyError("oops")
    print(config.output, config.part.path)

main()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "conf" / "part").mkdir(parents=True)
    (folder / "conf" / "toy.yaml").write_text(
        "defaults: [_self_, {part: small}]\noutput: ???\nnames: {}\nfree: {known: 1}\nfail: 'no'\n"
    )
    (folder / "conf" / "part" / "small.yaml").write_text("_target_: conf.files.sha256_file\npath: p\n")
    (folder / "program.py").write_text(PROGRAM)
    return folder


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, str(program / "program.py"), *arguments],
        capture_output=True,
        text=True,
        cwd=program,
        check=False,
    )


def test_overrides_reach_the_command_and_hydra_leaves_no_folder(program):
    before = sorted(p.name for p in program.iterdir())
    done = run(program, "output=o", "part.path=q")
    assert (done.returncode, done.stdout.split()) == (0, ["o", "q"])
    assert sorted(p.name for p in program.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "error: option 'output' must be given: add output=VALUE to the command line"),
        (["output=o", "part.pth=1"], "error: there is no option 'part.pth': did you mean 'part.path'?"),
        (["output=o", "+part.pth=1"], "error: 'part' has no option 'pth': did you mean 'path'?"),
        (["otput=o"], "error: there is no option 'otput': did you mean 'output'?"),
        (["output=o", "part=smal"], "error: option 'part' has no choice 'smal': did you mean 'small'?"),
        (["output=o", "fail=input"], "error: the file 'a' is not text"),
        (
            ["output=o", "part.q.r=1"],
            "error: there is no option 'part.q.r': 'part' has part.path",
        ),
        (
            ["output=o", "free.q=1"],
            "error: there is no option 'free.q': 'free' has free.known; ++free.q sets what is not listed there",
        ),
        (
            ["output=o", "names={a: 1}", "names={b: 1}"],
            "error: option 'names' cannot be set to that: give it once, and if it stands there once, another value",
        ),
        (
            ["output=a=b"],
            "error: 'output=a=b' cannot be read as option=value: quote a value that holds = , ( ) [ ] { } < > or "
            "spaces, twice on a shell's command line (job.tag='\"<bt>\"')",
        ),
        (["output"], "error: 'output' is not of the form option=value"),
        (["--cfg", "jobs"], "error: --cfg has no choice 'jobs': did you mean 'job'?"),
        (["--multirn", "output=a,b"], "error: there is no flag '--multirn': did you mean '--multirun'?"),
        (["--cfg"], "error: the command line does not fit: argument --cfg/-c: expected one argument"),
        (["output=o", "fail=unwritable"], "error: 'report.html' cannot be read or written: Is a directory"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(program, arguments, sentence):
    done = run(program, *arguments)
    assert (done.returncode, done.stderr.strip()) == (2, sentence)


def test_a_group_that_must_be_chosen_is_one_sentence_with_its_choices(program):
    (program / "conf" / "toy.yaml").rename(program / "conf" / "toy.kept")
    try:
        (program / "conf" / "toy.yaml").write_text('defaults: [_self_, {part: "???"}]\noutput: o\n')
        done = run(program)
    finally:
        (program / "conf" / "toy.kept").rename(program / "conf" / "toy.yaml")
    sentence = "error: option 'part' must be chosen: add part=CHOICE to the command line (small)"
    assert (done.returncode, done.stderr.strip()) == (2, sentence)


def test_full_disk_is_one_sentence_through_a_wrapped_exception(program):
    done = run(program, "output=o", "fail=disk")
    assert done.returncode == 1
    assert done.stderr.startswith("error: disk full while writing 'shards/x.arrow'")


def test_own_fault_shows_its_traceback(program):
    done = run(program, "output=o", "fail=fault")
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "KeyError" in done.stderr.splitlines()[-1]


def test_cfg_shows_the_composed_configuration(program):
    done = run(program, "--cfg", "job")
    assert done.returncode == 0 and "path: p" in done.stdout


def test_multirun_gives_each_job_a_directory_of_its_own(program):
    done = run(program, "--multirun", "output=o", "part.path=q,r")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["o/0", "q", "o/1", "r"]
