"""How a command is typed: what Hydra reads back, and the line a run's provenance gives to paste."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from conf.command_line import each_once, override_name, quote, shell_line

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
# Hydra reads a tab or line break inside quotes as it stands, but its lexer takes no other control characters.
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@given(VALUES)
def test_hydra_reads_back_the_value_that_was_quoted(value: object) -> None:
    override = OverridesParser.create().parse_override(f"key={quote(value)}")
    read = override.value()

    def unquoted(item: object) -> object:
        if isinstance(item, list):
            return [unquoted(inner) for inner in item]
        return getattr(item, "text", item)

    assert unquoted(read) == value
    assert type(unquoted(read)) is type(value)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=4))
def test_a_shell_reads_back_the_words_of_a_line(words: list[str]) -> None:
    assert shlex.split(shell_line(words)) == words


@pytest.mark.parametrize("key", ["a/b.c-d", "x y", "(1)", "p:q,r=s", "[t]{u}", "back\\slash"])
def test_hydra_reads_back_the_keys_of_a_mapping(key: str) -> None:
    assert OverridesParser.create().parse_override(f"data={quote({key: 1.5})}").value() == {key: 1.5}


def test_a_list_is_quoted_so_that_it_can_be_read() -> None:
    words = ["corpus.paths=['a b']", "corpus.paths=[/data/*.gz]", "x=1"]
    assert shell_line(words) == "\"corpus.paths=['a b']\" 'corpus.paths=[/data/*.gz]' x=1"


@pytest.mark.parametrize(
    ("words", "once"),
    [
        (["run_dir=runs/a", "seed=1", "run_dir='runs/a'"], ["run_dir=runs/a", "seed=1"]),
        (["run_dir=runs/a", "seed=1", "run_dir='runs/b'"], ["run_dir='runs/b'", "seed=1"]),
        (["seed=1", "seed=1", "seed=2"], ["seed=2"]),
        (["~wandb", "+wandb=x", "~wandb", "--config-dir", "c", "-cd", "c"], None),
        (["+a=1", "++a=1"], None),
        (["not=a=value", "not=a=value"], ["not=a=value"]),
    ],
)
def test_each_override_stands_once_with_the_value_that_counts(words: list[str], once: list[str] | None) -> None:
    assert each_once(words) == (words if once is None else once)


def test_the_name_of_an_override_is_without_hydras_prefixes() -> None:
    assert [override_name(word) for word in ("++a.b=1", "~c", "group@place=x")] == ["a.b", "c", "group"]


PROGRAM = """
import sys
from dataclasses import dataclass
from pathlib import Path
import conf.command
from conf.provenance import write_provenance

conf.command.CONFIG_DIRECTORY = Path(__file__).parent / "conf"

@dataclass
class Options:
    output: str = "o"
    text: str = "t"

@conf.command.command("toy", schema=Options, directory="output")
def main(config):
    Path(config.output).mkdir(parents=True, exist_ok=True)
    write_provenance(config.output, config, inputs={"a": "1"}, seeds={"s": 1})
    print(config.text, file=sys.stderr)

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy/conf").mkdir(parents=True)
    (folder / "toy/conf/toy.yaml").write_text("output: o\ntext: t\n")
    (folder / "toy/__main__.py").write_text(PROGRAM)
    return folder


def run(folder: Path, *words: str) -> str:
    repository = str(Path(__file__).resolve().parents[2])
    environment = {"PYTHONPATH": repository, "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "toy", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def recorded(path: Path) -> list[str]:
    return shlex.split(json.loads((path / "provenance.json").read_text())["command"])


def test_the_recorded_command_can_be_pasted(toy: Path) -> None:
    run(toy, "output=first", r"text='it\'s $HOME, [a] and `b`'", "output='first'")
    words = recorded(toy / "first")
    assert words == ["python", "-m", "toy", "output=first", r"text='it\'s $HOME, [a] and `b`'"]
    assert run(toy, *words[3:]).strip() == "it's $HOME, [a] and `b`"


def test_the_recorded_command_of_a_sweeps_job_runs_that_job_alone(toy: Path) -> None:
    run(toy, "--multirun", "output=sweep", "text=a,'b c'")
    words = recorded(toy / "sweep/1")
    assert words == ["python", "-m", "toy", "output=sweep/1", "text='b c'"]
    before = (toy / "sweep/1/provenance.json").read_bytes()
    assert run(toy, *words[3:]).strip() == "b c"
    assert (toy / "sweep/1/provenance.json").read_bytes() == before
