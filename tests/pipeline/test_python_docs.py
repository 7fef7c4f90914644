import pytest

from conf.errors import InputError
from pipeline.python_docs import PythonDocsCorpus, is_prose
from pipeline.records import Document, ReadFailure

PROSE = "This file says in plain words what the package does.\nIt has more than one line of them.\n"
METADATA = "Metadata-Version: 2.1\nName: {name}\nSummary: short\n\n# {name}\n\nThe long description.\n"


@pytest.fixture
def root(tmp_path):
    """A small site-packages."""
    files = {
        "pkg/__init__.py": '"""The package."""\n',
        "pkg/code.py": 'def f():\n    """What f does."""\n\n\nclass C:\n    """What C is."""\n',
        "pkg/nothing.py": "x = 1\n",
        "pkg/latin.py": '# -*- coding: latin-1 -*-\n"""Größe"""\n'.encode("latin-1"),
        "pkg/bad_bytes.py": b'"""\xff"""\n',
        "pkg/bad_coding.py": b'# coding: nonsense\n"""doc"""\n',
        "pkg/open.py": '"""never ends\n',
        "pkg/surrogate.py": '"""half: \\ud800"""\n',
        "pkg/README.md": PROSE,
        "pkg/guide.rst": PROSE,
        "pkg/notes.txt": PROSE,
        "pkg/numbers.txt": "1 2 3\n4 5 6\n" * 5,
        "pkg/LICENSE.txt": PROSE,
        "pkg/vocab.txt": PROSE,
        "pkg/tests/data.rst": PROSE,
        "pkg/tests/test_it.py": '"""A test says what it tests."""\n',
        "pkg/__pycache__/code.py": '"""stale"""\n',
        "pkg-1.0.dist-info/METADATA": METADATA.format(name="pkg"),
        "pkg-1.0.dist-info/RECORD": "pkg/code.py,,\n",
        "pkg-1.0.dist-info/entry_points.txt": PROSE,
        "pkg-1.0.dist-info/licenses/README.md": PROSE,
        "old-1.0.egg-info/METADATA": "Name: old\nDescription: Told in a field.\n",
        "bare-1.0.dist-info/METADATA": "Name: bare\n\nUNKNOWN\n",
        "palimpsest-0.1.dist-info/METADATA": METADATA.format(name="palimpsest"),
        "single.py": '"""One module."""\n',
    }
    root = tmp_path / "root"
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def read(corpus):
    return [record for range_ in corpus.plan().ranges for record in corpus.read(range_)]


def test_docstrings_documentation_and_descriptions_are_documents_and_nothing_else_is(root):
    found = {
        record.id.removeprefix("root/"): record.text
        for record in read(PythonDocsCorpus([str(root)]))
        if isinstance(record, Document)
    }
    assert found == {
        "old-1.0.egg-info/METADATA": "Told in a field.",
        "pkg-1.0.dist-info/METADATA": "# pkg\n\nThe long description.\n",
        "pkg/README.md": PROSE,
        "pkg/__init__.py": "The package.",
        "pkg/code.py": "What f does.\n\nWhat C is.",
        "pkg/guide.rst": PROSE,
        "pkg/latin.py": "Größe",
        "pkg/notes.txt": PROSE,
        "pkg/surrogate.py": "half: \ufffd",
        "pkg/tests/test_it.py": "A test says what it tests.",
        "single.py": "One module.",
    }


def test_files_that_cannot_be_read_are_counted_with_their_reason(root):
    failures = {
        record.detail.split(":")[0].rsplit("/", 1)[1]: record.reason
        for record in read(PythonDocsCorpus([str(root)]))
        if isinstance(record, ReadFailure)
    }
    assert failures == {
        "bad_bytes.py": "undecodable",
        "bad_coding.py": "undecodable",
        "open.py": "malformed_source",
    }


def test_a_file_beyond_the_limit_is_counted(root):
    corpus = PythonDocsCorpus([str(root)], max_file_bytes=len(PROSE) - 1)
    assert "record_too_long" in {record.reason for record in read(corpus) if isinstance(record, ReadFailure)}


def test_the_plan_is_the_same_wherever_the_packages_lie_and_its_ranges_give_the_same_documents(root, tmp_path):
    moved = tmp_path / "elsewhere" / "root"
    moved.parent.mkdir()
    one = PythonDocsCorpus([str(root)], range_bytes=200)
    ids = [range_.id for range_ in one.plan().ranges]
    names = [file.name for file in one.plan().files]
    records = [(record.id, record.text) for record in read(one) if isinstance(record, Document)]
    root.rename(moved)
    two = PythonDocsCorpus([str(moved)], range_bytes=200)
    assert len(ids) > 2
    assert [range_.id for range_ in two.plan().ranges] == ids
    assert names == sorted(names)
    assert [(record.id, record.text) for record in read(two) if isinstance(record, Document)] == records


def test_packages_are_left_out_under_either_of_their_names(root):
    names = [file.name for file in PythonDocsCorpus([str(root)], exclude=["PKG", "single"]).plan().files]
    assert not [name for name in names if "pkg" in name or "single" in name]
    assert "root/palimpsest-0.1.dist-info/METADATA" in names


def test_the_standard_library_and_the_installed_packages_are_the_default_roots():
    corpus = PythonDocsCorpus()
    plan = corpus.plan()
    names = {file.name for file in plan.files}
    assert "stdlib/abc.py" in names
    assert "packages/pytest/__init__.py" in names
    assert not [name for name in names if name.startswith("stdlib/site-packages")]
    assert sum(len(record.text) for record in corpus.read(plan.ranges[0]) if isinstance(record, Document)) > 100_000


@pytest.mark.parametrize(("roots", "said"), [(["missing"], "not a directory"), (["empty"], "is empty")])
def test_roots_without_documentation_are_bad_input(roots, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=said):
        PythonDocsCorpus(roots).plan()


def test_prose_is_told_from_data_by_words_in_a_row():
    assert is_prose(PROSE)
    assert not is_prose("alpha\nbeta\ngamma\n" * 10)
    assert not is_prose("1.0, 2.0, 3.0\n" * 10)
    assert not is_prose("")
