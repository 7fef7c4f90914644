from pathlib import Path

import pytest

from conf.errors import InputError
from slurm.code_version import code_version


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "zoo/__init__.py": "",
        "zoo/run.py": "import json\ndef main():\n    from zoo.deep import inner\n",
        "zoo/deep/__init__.py": "from .. import shared\n",
        "zoo/deep/inner.py": "from . import sibling\nPAGE = 'page.html.j2'\n",
        "zoo/deep/sibling.py": "from zoo.deep.inner import PAGE\n",
        "zoo/deep/page.html.j2": "<p>",
        "zoo/deep/other.html.j2": "<p>",
        "zoo/shared.py": "import numpy.linalg\n",
        "zoo/target.py": "class Target: ...\n",
        "zoo/unused.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_closure_holds_what_is_imported_however_deep_and_the_pages_beside_it(project: Path) -> None:
    assert list(code_version("zoo.run", [])) == [
        "zoo/__init__.py",
        "zoo/deep/__init__.py",
        "zoo/deep/inner.py",
        "zoo/deep/page.html.j2",
        "zoo/deep/sibling.py",
        "zoo/run.py",
        "zoo/shared.py",
    ]


def test_targets_count_and_installed_packages_do_not(project: Path) -> None:
    files = code_version("zoo.run", ["zoo.target.Target", "torch.optim.AdamW", "numpy.mean", "no.such.thing"])
    assert "zoo/target.py" in files
    assert all(name.startswith("zoo/") for name in files)


def test_a_changed_byte_changes_only_that_files_hash(project: Path) -> None:
    before = code_version("zoo.run", [])
    (project / "zoo/deep/sibling.py").write_text("from zoo.deep.inner import PAGE\n# a note\n")
    after = code_version("zoo.run", [])
    assert [name for name in before if before[name] != after[name]] == ["zoo/deep/sibling.py"]


def test_a_file_that_does_not_parse_is_hashed_all_the_same(project: Path) -> None:
    (project / "zoo/shared.py").write_text("def (")
    assert "zoo/shared.py" in code_version("zoo.run", [])


def test_an_unknown_command_is_refused(project: Path) -> None:
    with pytest.raises(InputError, match=r"no command 'zoo\.rum'"):
        code_version("zoo.rum", [])


def test_the_planner_itself_is_found_without_importing_torch() -> None:
    assert "slurm/plan.py" in code_version("slurm.submit", [])
