"""Every command of the README and of docs/ is run, in reading order, in one workspace.

A command is run as it stands there; where it would take minutes, options that make it small are added behind it
(SMALLER). `/data/` becomes a folder of the workspace that holds real documentation as jsonl.gz.
"""

import asyncio
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from pipeline.python_docs import PythonDocsCorpus
from pipeline.records import Document
from tests.helpers.pairs import pair_of
from tests.helpers.warm_python import run_module

REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARY = Path(asyncio.__file__).parents[1]
ROOTS = ",".join(str(LIBRARY / name) for name in ("asyncio", "email", "http"))

CHAIN = [
    "chain.held_out_share=0.2",
    "chain.steps.tokenizer.options.job.vocab_size=512",
    "++chain.steps.tasks.options.job.train=64",
    "++chain.steps.tasks.options.job.dev=64",
    "++chain.steps.tasks.options.job.minimum=10",
    "chain.steps.pretrain.groups.experiment=tiny",
    "chain.steps.evaluate.groups.suite=tiny",
]
# One run directory for `make demo` and the command that it stands for: the second of them finds the work done.
DEMO = [*CHAIN, f"++chain.steps.corpus.options.corpus.roots=[{ROOTS}]", "run_dir={workspace}/runs/demo"]
TRAIN = [
    "schedule.warmup=1",
    "trainer.max_steps=3",
    "trainer.global_batch_size=8",
    "trainer.micro_batch_size=4",
    "trainer.checkpoint_every=2",
    "trainer.validation_rows=8",
    "trainer.validation_every=0",
]
# Pattern of a command -> what is added behind it. The first that fits counts; a command that fits none runs as it is.
SMALLER: list[tuple[str, list[str]]] = [
    (r"^make demo FULL=1$", [f"OPTIONS={shlex.join([*DEMO, 'dry_run=true'])}"]),
    (r"^make demo$", [f"OPTIONS={shlex.join(DEMO)}"]),
    (r"^make (test|test-full|install)$", ["--dry-run"]),  # this very run is the one, a copy of it would not end
    (r"pip install", ["--dry-run", "--no-deps"]),
    # tests/integration/test_translation_chain.py runs them.
    (r"^make demo-translation$", [f"OPTIONS={shlex.join(['run_dir={workspace}/runs/translation', 'dry_run=true'])}"]),
    (r"slurm\.submit chain=(back_translation|translation_arms_small)", ["dry_run=true"]),
    (r"slurm\.submit chain=demo", DEMO),
    # As many steps as experiment=tiny has, which an earlier command of the same run directory made.
    (r"slurm\.submit chain=encoder .*max_steps", [*CHAIN, "++chain.steps.pretrain.options.trainer.max_steps=20"]),
    (r"slurm\.submit chain=encoder", CHAIN),
    (r"slurm\.submit chain=tiny", [f"corpus.roots=[{ROOTS}]"]),
    (r"job=documents corpus=python_docs", [f"corpus.roots=[{ROOTS}]"]),
    (r"job=tokenizer", ["job.vocab_size=512"]),
    (r"job=masked_lm", ["job.held_out_share=0.2"]),
    (r"job=corpus_tasks", ["job.held_out_share=0.2", "job.train=64", "job.dev=64", "job.minimum=10"]),
    (r"tests\.integration\.print_parity", ["ranks=1"]),
    (r"tests\.integration\.print_elastic", ["worlds=1"]),
    (r"tests\.integration\.crash_run", ["kills=1", "steps=30"]),
    (r"-m pretrain .*--cfg", []),
    (
        r"-m pretrain .*keep_best=1",
        [*(word for word in TRAIN if "validation_every" not in word), "trainer.validation_every=3"],
    ),
    # It begins at the last step that TRAIN gives the run before it, and needs steps of its own.
    (r"-m pretrain .*fork=runs/by_hand", [*TRAIN, "schedule.decay=2", "trainer.max_steps=5"]),
    (r"-m pretrain ", TRAIN),
    (r"pretrain\.evaluate .*suite\.tasks\.minimal_pairs=null", ["suite.initialisations=[1,2]"]),
    (
        r"pretrain\.evaluate .*suite=challenge",
        ["suite.initialisations=[1,2]", "suite.tasks.minimal_pairs.phenomena=[word_order]"],
    ),
    (
        r"pretrain\.evaluate .*suite=all",
        [
            "suite.seeds=[1,2]",
            "suite.tasks.minimal_pairs.phenomena=[word_order,a_an]",
            "suite.tasks.minimal_pairs.pairs_per_phenomenon=2",
            "suite.tasks.rte.recipe.epochs=1",
            "suite.tasks.rte.recipe.max_length=32",
        ],
    ),
    (r"pretrain\.evaluate", ["suite=tiny"]),
    (r"pretrain\.translate", ["decoding.maximum_length=4", "decoding.maximum_ratio=0"]),
    (r"pretrain\.finetune", ["task.max_train=64", "task.max_dev=64", "task.recipe.epochs=1"]),
    (r"benchmarks\.tokenize", ["--runs", "1", "--file", "data/plain.jsonl"]),
    (r"benchmarks\.decode", ["--shape", "tiny", "--sentences", "8", "--batch", "4"]),
    (
        r"benchmarks\.seq2seq_step",
        ["--runs", "1", "--steps", "1", "--file", "data/few.jsonl", "--shape", "tiny", "--vocab-size", "512"],
    ),
    (r"benchmarks\.finetune", ["--data", "data/sets", "--tasks", "rte"]),
    (r"benchmarks\.mlm_step", ["--runs", "1", "--steps", "1", "--file", "data/few.jsonl", "--shapes", "tiny"]),
]


def pages() -> list[Path]:
    """README, then the pages of docs/ in the order of the site's navigation."""
    found: list[str] = []

    def walk(node: object) -> None:
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, list | dict):
            for child in node.values() if isinstance(node, dict) else node:
                walk(child)

    walk(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"])
    return [REPOSITORY / "README.md", *(REPOSITORY / "docs" / name for name in found)]


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"^```(?:bash|sh|shell|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


COMMANDS = list(dict.fromkeys(command for page in pages() for command in commands(page)))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "data").mkdir()
    corpus = PythonDocsCorpus(roots=ROOTS.split(","))
    records = [record for part in corpus.plan().ranges for record in corpus.read(part)]
    lines = [json.dumps({"id": record.id, "text": record.text}) for record in records if isinstance(record, Document)]
    text = "\n".join(lines) + "\n"
    (folder / "data" / "plain.jsonl").write_text(text)
    (folder / "data" / "few.jsonl").write_text("\n".join(lines[::8]) + "\n")
    (folder / "data" / "documents.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for side, language in enumerate(("de", "en")):
        sentences = "".join(pair_of(number)[side] + "\n" for number in range(300))
        (folder / "data" / f"train.{language}.gz").write_bytes(gzip.compress(sentences.encode()))
        (folder / "data" / f"test.{language}").write_text(sentences[:200])
    (folder / "data" / "sets" / "RTE").mkdir(parents=True)
    rows = [f"{n}\tThe key is {n} old.\tA key.\t{'not_' * (n % 2)}entailment" for n in range(8)]
    for split in ("train", "dev"):
        table = "\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n"
        (folder / "data" / "sets" / "RTE" / f"{split}.tsv").write_text(table)
    (folder / "data" / "reviews").mkdir()
    for split in ("train", "dev"):
        lines = ["sentence\tlabel", *(f"the film is {('bad', 'good')[n % 2]} .\t{n % 2}" for n in range(16))]
        (folder / "data" / "reviews" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "README.md").write_bytes((REPOSITORY / "README.md").read_bytes())
    return folder


def files_of_runs() -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (REPOSITORY / "runs").rglob("*") if path.is_file()}


@pytest.fixture(scope="module", autouse=True)
def runs_before() -> dict[str, int]:
    """What lies in the repository's runs/ (a demo that someone made) before any command is run."""
    return files_of_runs()


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment.pop("MAKEFLAGS", None)  # `make test` runs this: its options are not those of the make started here
    environment.pop("MAKELEVEL", None)
    if line.startswith("python -m ") and not set("$`|;&<>").intersection(line):
        return run_module([sys.executable, *shlex.split(line)[1:]], cwd=folder, env=environment, timeout=550)
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=550, check=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_documentation_runs(command: str, workspace: Path) -> None:
    added = next((options for pattern, options in SMALLER if re.search(pattern, command)), [])
    line = f"{command} {shlex.join(added)}" if added else command
    line = re.sub(r"(?<!\w)/data/", f"{workspace}/data/", line).replace("{workspace}", str(workspace))
    if command.startswith("make "):
        line += f" VENV={Path(sys.executable).parents[1]}"
    of_repository = command.startswith("make ") or "pip install" in command or "-m tests." in command
    done = run(line, REPOSITORY if of_repository else workspace)
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_the_repositorys_own_runs_are_left_alone(runs_before: dict[str, int]) -> None:
    assert files_of_runs() == runs_before


def test_every_rule_that_makes_a_command_smaller_is_needed() -> None:
    first = {next((p for p, _ in SMALLER if re.search(p, command)), None) for command in COMMANDS}
    assert {pattern for pattern, _ in SMALLER} <= first


def test_the_page_on_installing_lists_every_console_script() -> None:
    scripts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    page = (REPOSITORY / "docs/install.md").read_text()
    for name, place in scripts.items():
        module = place.partition(":")[0].removesuffix(".__main__")
        assert f"| `{name}` | `python -m {module}` |" in page


def test_readme_project_and_install_page_name_the_same_python() -> None:
    required = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["requires-python"]
    words = f"Python {required.removeprefix('>=')} or newer"
    assert all(words in (REPOSITORY / name).read_text() for name in ("README.md", "docs/install.md", "Makefile"))


def test_navigation_names_every_page() -> None:
    assert {page.name for page in pages()} - {"README.md"} == {
        page.name for page in (REPOSITORY / "docs").rglob("*.md")
    }
