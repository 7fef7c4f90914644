"""Beam's local runner with several worker processes, watched: whatever dies, the command ends and says so.

Three generations: the command starts a driver process, and Beam in it starts the workers. Beam waits for ever for a
worker that was killed (by the kernel, for lack of memory); here the driver notices, ends its workers and itself, and
the command reports. In turn, driver and workers end when their parent does. Must not import torch.

`python -m pipeline.worker_processes` is the worker.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection

import grpc
import psutil

from conf.errors import InputError
from pipeline.runners import Build, as_raised, quiet_import

PARENT_POLL_SECONDS = 0.5
PARENT_VARIABLE = "PALIMPSEST_DRIVER_PID"
KILLED = (
    "a worker process {how}, probably because memory ran out: run the same command again (finished ranges are kept), "
    "with a smaller runner.workers or corpus.range_bytes"
)


def run_in_processes(build: Build, workers: int) -> None:
    """Run a pipeline with `workers` processes. See `pipeline.runners.Runner.run` for what is raised."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    driver = context.Process(target=_drive, args=(build, workers, there), name="beam-driver")
    driver.start()
    there.close()
    try:
        kind, details = here.recv()
        driver.join()
    except EOFError:
        driver.join()
        raise InputError(KILLED.format(how=_how(driver.exitcode))) from None
    finally:
        end_processes(driver.pid)
    if kind == "system":
        raise OSError(*details)
    if kind == "input":
        raise InputError(details)
    if kind == "fault":
        raise RuntimeError(f"a worker failed:\n{details}")


def end_processes(pid: int | None) -> None:
    """Kill a process and all that descend from it; nothing happens where it has ended."""
    if pid is None:
        return
    try:
        parent = psutil.Process(pid)
        family = [*parent.children(recursive=True), parent]
    except psutil.NoSuchProcess:
        return
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=5)


def _drive(build: Build, workers: int, report: Connection) -> None:
    """The driver process: runs the pipeline and sends ("done" | "input" | "system" | "fault", details)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides; it ends this process
    parent = multiprocessing.parent_process()
    _end_with(parent.pid if parent else None)
    with quiet_import():
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner
        from apache_beam.transforms.environments import SubprocessSDKEnvironment

    ending = threading.Lock()

    def finish(kind: str, details: object) -> None:
        ending.acquire()  # for good: what is told first is the cause, and what other threads see is its consequence
        report.send((kind, details))
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        os._exit(0)  # Beam's threads may still wait for a dead worker, and an ordinary exit for them

    def thread_failed(failure: threading.ExceptHookArgs) -> None:
        # Beam runs `Popen.wait` in a thread of this name, and raises there when a worker's status is not 0.
        if failure.thread is not None and failure.thread.name == "run_worker":
            finish("input", KILLED.format(how=_how(_status(str(failure.exc_value)))))
        if not issubclass(failure.exc_type, grpc.RpcError):  # a connection that broke: its worker is gone, see above
            threading.__excepthook__(failure)

    threading.excepthook = thread_failed
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    # `exec`, so that the shell Beam starts becomes the worker: its death is then seen as what it is.
    command = f"exec {shlex.quote(sys.executable)} -m pipeline.worker_processes"
    runner = FnApiRunner(default_environment=SubprocessSDKEnvironment.from_command_string(command))
    options = PipelineOptions([f"--direct_num_workers={workers}", "--default_sdk_harness_log_level=ERROR"])
    try:
        pipeline = beam.Pipeline(runner=runner, options=options)
        build(pipeline)
        pipeline.run().wait_until_finish()
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        known = as_raised(text)
        if isinstance(known, InputError):
            finish("input", str(known))
        elif known is not None:
            finish("system", (known.errno, known.strerror, known.filename))
        finish("fault", text)
    finish("done", None)


def _status(message: str) -> int | None:
    """The status in Beam's "Worker subprocess exited with return code N"."""
    last = message.rpartition(" ")[2]
    return int(last) if last.lstrip("-").isdigit() else None


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        return f"was killed by signal {-status}"
    return f"ended early with status {status}"


def _end_with(parent: int | None) -> None:
    """End this process soon after its parent has ended in any way, even if that was before this call."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()


def work() -> None:
    """A worker process: Beam's, without its start-up remarks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(int(os.environ[PARENT_VARIABLE]))
    with quiet_import():
        from apache_beam.runners.worker import sdk_worker_main
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    work()
