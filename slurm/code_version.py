"""The version of a step's code: which source files it can run, and their hashes.

Files are found by reading `import` statements, never by importing: planning a chain must not cost the import of torch
and Beam, and a file that cannot be imported here can still be hashed. Must not import `pipeline` or `pretrain`.
"""

import ast
import functools
import importlib.util
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from conf.errors import InputError
from conf.files import sha256_file

# `conf` is left out on purpose: it decides how a command is started, checked and shown, not what it computes, and the
# values it reads from YAML are in the key as the resolved configuration.
PROJECT_PACKAGES = ("pipeline", "pretrain", "slurm", "benchmarks")
DATA_FILE = re.compile(r"[\w][\w./-]*\.\w{1,8}")


def code_version(module: str, targets: Iterable[str]) -> dict[str, str]:
    """Hashes of the source files that a command with these targets can execute.

    The files are those of `module`, of the module of every target, of all modules they import, however deep (imports
    inside functions count; the `__init__` of every package on the way too), and data files that lie beside such a
    module and that it names in a string (page templates, word lists). Only files of this project are taken, and of
    packages of a target that are not installed ones (a user's own filter).

    Args:
        module: what `python -m` runs; a package stands for its `__main__`.
        targets: dotted names of classes and functions, the `_target_`s of the command's configuration.

    Returns:
        Path relative to the folder the package lies in -> SHA-256 of the file, in the order of the paths.

    Raises:
        InputError: `module` cannot be found.
    """
    roots = {name: root for name in PROJECT_PACKAGES if (root := _package_root(name)) is not None}
    own = module.split(".", 1)[0]
    for top in [own, *(target.split(".", 1)[0] for target in targets)]:
        if top not in roots and (root := _package_root(top)) is not None and not _is_installed(root):
            roots[top] = root
    if own not in roots or not _can_run(module, roots[own]):
        raise InputError(f"there is no command '{module}': python -m {module} finds no such module")
    waiting = [module, f"{module}.__main__", *(target.rpartition(".")[0] for target in targets)]
    seen: set[str] = set()
    hashes: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for path in _module_files(name, roots):
            base = roots[name.split(".", 1)[0]]
            for file in (path, *_data_files(path)):
                hashes[file.relative_to(base).as_posix()] = _hash(file, _stamp(file))
            waiting += _imports(path, _package_of(path, base))
    return dict(sorted(hashes.items()))


def _package_root(name: str) -> Path | None:
    """The folder that holds the top-level package or module `name`; nothing is imported."""
    if not name:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve().parent
    if spec.origin and spec.origin.endswith(".py"):
        return Path(spec.origin).resolve().parent
    return None  # built in, frozen or compiled


def _can_run(module: str, root: Path) -> bool:
    place = root.joinpath(*module.split("."))
    return place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()


def _is_installed(root: Path) -> bool:
    """Whether a folder belongs to the Python installation: its packages have versions and are no code of the user's."""
    places = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(root == place or place in root.parents for place in places)


def _module_files(name: str, roots: dict[str, Path]) -> list[Path]:
    """The files that importing `name` executes: every package's `__init__` on the way, and the module."""
    parts = name.split(".")
    if parts[0] not in roots:
        return []
    place = roots[parts[0]]
    files: list[Path] = []
    for part in parts:
        if (place / part / "__init__.py").is_file():
            files.append(place / part / "__init__.py")
        elif (place / f"{part}.py").is_file():
            files.append(place / f"{part}.py")
        elif not (place / part).is_dir():
            break  # an attribute of the module before it
        place = place / part
    return files


def _package_of(path: Path, base: Path) -> str:
    return ".".join(path.relative_to(base).parent.parts)


def _imports(path: Path, package: str) -> list[str]:
    """Dotted names a file imports; for `from a import b` both `a` and `a.b`, as only the disk tells what `b` is."""
    found: list[str] = []
    for level, source, names in _parsed(path, _stamp(path))[0]:
        above = package.split(".")[: len(package.split(".")) - (level - 1)] if level else []
        base = ".".join([*above, *([source] if source else [])])
        found += [base, *(f"{base}.{name}" for name in names)]
    return found


def _data_files(path: Path) -> Iterator[Path]:
    for name in _parsed(path, _stamp(path))[1]:
        beside = path.parent / name
        if beside.suffix != ".py" and beside.is_file():
            yield beside


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


@functools.lru_cache(maxsize=4096)
def _hash(path: Path, stamp: tuple[int, int, int]) -> str:
    return f"sha256:{sha256_file(path)}"


@functools.lru_cache(maxsize=4096)
def _parsed(
    path: Path, stamp: tuple[int, int, int]
) -> tuple[tuple[tuple[int, str, tuple[str, ...]], ...], tuple[str, ...]]:
    """Imports of a file as (level, module, names), and its strings that look like names of files.

    `stamp` keys the cache. The package that a relative import starts from is left to the caller, so that a file is
    parsed once.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return (), ()  # the command will say so when it runs; its bytes are hashed all the same
    imports: list[tuple[int, str, tuple[str, ...]]] = []
    strings: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DATA_FILE.fullmatch(node.value):
            strings.append(node.value)
    return tuple(imports), tuple(strings)
