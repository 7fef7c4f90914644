import functools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from conf.errors import InputError
from pipeline.jobs.tokenizer import build_pipeline
from pipeline.runners import LocalRunner, as_raised, local
from pipeline.tokenizer import load_tokenizer

ROOT = Path(__file__).resolve().parents[2]
WORKER = "pipeline.worker_processes"
both = pytest.mark.parametrize("workers", [1, 2])


def each(function, elements):
    """A build that maps a function of an installed module (workers cannot import this file) over elements."""
    return functools.partial(build_pipeline, ranges=elements, sampler=SimpleNamespace(draw=function))


def worker_processes(parent):
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        try:
            if WORKER in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"did not happen within {seconds} s")


@both
def test_every_element_is_done(tmp_path, workers):
    paths = [str(tmp_path / str(i)) for i in range(9)]
    LocalRunner(workers).run(each(os.mkdir, paths), units=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(i) for i in range(9)]


@both
def test_bad_input_in_a_worker_is_the_same_sentence_here(workers, tmp_path):
    with pytest.raises(InputError) as here:
        load_tokenizer(tmp_path)
    with pytest.raises(InputError) as there:
        LocalRunner(workers).run(each(load_tokenizer, [str(tmp_path)]))
    assert str(there.value) == str(here.value)


@both
def test_an_error_of_the_system_in_a_worker_keeps_its_number_and_file(workers, tmp_path):
    with pytest.raises(FileExistsError) as error:
        LocalRunner(workers).run(each(os.mkdir, [str(tmp_path)]))
    assert error.value.filename == str(tmp_path)


@both
def test_a_fault_in_a_worker_shows_its_traceback(workers):
    with pytest.raises((RuntimeError, ValueError), match="invalid literal for int"):
        LocalRunner(workers).run(each(int, ["x"]))


def test_a_killed_worker_ends_the_run_with_one_sentence():
    def kill():
        wait_for(lambda: len(worker_processes(os.getpid())) == 2)
        time.sleep(2)
        worker_processes(os.getpid())[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(InputError, match=r"a worker process was killed by signal 9.*run the same command again"):
        LocalRunner(2).run(each(time.sleep, [120] * 4))
    killer.join()
    assert worker_processes(os.getpid()) == []


def test_workers_end_when_the_command_is_killed():
    program = (
        "import functools, time; from types import SimpleNamespace;"
        "from pipeline.jobs.tokenizer import build_pipeline; from pipeline.runners import LocalRunner\n"
        "if __name__ == '__main__':\n"
        "    LocalRunner(2).run(functools.partial(build_pipeline, ranges=[60, 60], "
        "sampler=SimpleNamespace(draw=time.sleep)))"
    )
    command = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_for(lambda: len(worker_processes(command.pid)) == 2)
    family = psutil.Process(command.pid).children(recursive=True)
    command.kill()
    command.wait()
    wait_for(lambda: not any(process.is_running() for process in family), seconds=20)


def test_no_more_workers_than_work():
    # In this process the error is the function's own; from another one it is a RuntimeError with its text.
    with pytest.raises(ValueError, match="invalid literal"):
        LocalRunner(8).run(each(int, ["x"]), units=1)


def test_null_workers_means_one_per_usable_core():
    assert local().workers == len(os.sched_getaffinity(0))
    assert local(3).workers == 3
    with pytest.raises(InputError, match=r"runner\.workers' must be at least 1"):
        local(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Traceback ...\nconf.errors.InputError: no file 'a b' [while running 'write-ptransform-7']\n",
            "no file 'a b'",
        ),
        ("conf.errors.InputError: plain", "plain"),
        ("builtins.OSError: [Errno 28] No space left on device: '/a/b' [while running 'write']", (28, "/a/b")),
        ("OSError: [Errno 28] No space left on device", (28, None)),
        ("PermissionError: [Errno 13] Permission denied: '/x'", (13, "/x")),
        ("ValueError: nothing known", None),
    ],
)
def test_errors_are_told_from_the_text_in_which_beam_hands_them_on(text, expected):
    error = as_raised(text)
    if isinstance(error, OSError):
        assert (error.errno, error.filename) == expected
    else:
        assert (None if error is None else str(error)) == expected
