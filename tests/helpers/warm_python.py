"""`python -m MODULE ...` in a process forked from one that has already imported torch, DeepSpeed, Beam and the like.

Most of what a small command costs is the import of the libraries. Each pytest process keeps one python that has
imported them (and nothing of this project) and forks it for each command, which then runs as `python -m` would run it:
its own process, arguments, folder, environment and output. Tests of what is imported, of signals and of `kill -9` start
python anew instead. Must not import anything of this project.
"""

import atexit
import functools
import gc
import importlib
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

LIBRARIES = ("apache_beam", "deepspeed", "hydra", "scipy.stats", "sklearn.metrics", "torch._dynamo", "transformers")
# What these say is taken in while a library is imported.
READ_AT_IMPORT = ("PYTHON", "OMP_", "MKL_", "KMP_", "DS_", "TORCH", "CUDA", "HF_", "LD_", "MALLOC_")
SETTINGS = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
MESSAGE = 1 << 20


def run_module(
    words: Sequence[str],
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """Run `[sys.executable, "-m", MODULE, ...]` to its end, as `subprocess.run` with its output captured as text.

    Where the environment asks for other libraries or threads than those of the warm process, python is started anew.

    Args:
        words: the command.
        cwd: its folder; this process's where left out.
        env: its environment, likewise; `SETTINGS` hold where it says nothing else.
        timeout: seconds after which it is killed.

    Raises:
        subprocess.TimeoutExpired: it was.
    """
    assert list(words[:2]) == [sys.executable, "-m"], words
    environment = SETTINGS | dict(os.environ if env is None else env)
    if _read_at_import(environment) != _read_at_import(SETTINGS | dict(os.environ)):
        return subprocess.run(
            list(words), cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = {"words": list(words[2:]), "cwd": str(Path(cwd or ".").absolute()), "env": environment}
        code = _ask(_server(), request, (out.fileno(), err.fileno()), words, timeout)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return subprocess.CompletedProcess(list(words), code, *texts)


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}


@functools.lru_cache(maxsize=1)
def _server() -> socket.socket:
    """Start the warm process of this one; it ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())],
        env=SETTINGS | dict(os.environ), pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL,
    )  # fmt: skip
    theirs.close()
    atexit.register(ours.close)
    return ours


def _ask(
    server: socket.socket, request: Mapping[str, object], streams: tuple[int, int], words: Sequence[str], timeout: float
) -> int:
    socket.send_fds(server, [json.dumps(request).encode()], list(streams))
    server.settimeout(None)  # the libraries may still be on their way
    pid = int(server.recv(MESSAGE))
    server.settimeout(timeout)
    try:
        return int(server.recv(MESSAGE))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        server.settimeout(None)
        server.recv(MESSAGE)
        raise subprocess.TimeoutExpired(list(words), timeout) from None


def _serve(server: socket.socket) -> dict[str, object] | None:
    """Fork for each request. Returns in the forked process, with its request; in the warm one, when nobody asks."""
    for name in LIBRARIES:
        importlib.import_module(name)
    logging.getLogger().handlers.clear()  # a library that warns while it is imported sets up a log of its own
    gc.collect()
    gc.freeze()  # a collection in a forked process does not touch, and so copy, what was here before
    while True:
        message, streams, _, _ = socket.recv_fds(server, MESSAGE, 2)
        if not message:
            return None
        request = json.loads(message)
        pid = os.fork()
        if pid == 0:
            server.close()
            for number, stream in enumerate(streams, start=1):
                os.dup2(stream, number)
                os.close(stream)
            return request
        for stream in streams:
            os.close(stream)
        server.send(str(pid).encode())
        server.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _main() -> None:
    sys.path.pop(0)  # the folder of this file
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return
    words, folder, environment = request["words"], str(request["cwd"]), dict(request["env"])  # type: ignore[call-overload]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    sys.argv = list(words)  # type: ignore[call-overload]
    _end(_exit_code(sys.argv[0]))


def _exit_code(module: str) -> int:
    """Run a module as `python -m` does, and return what python would exit with."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as python does, but leave the libraries' memory to the kernel: to take them apart costs two seconds."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
