import ast
import sysconfig
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.docstrings import MalformedSource, docstrings


def by_parsing(source):
    """What Python itself takes for docstrings, in order of appearance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    found = [ast.get_docstring(node) for node in nodes]
    return [text for text in found if text and text.strip()]


def test_the_standard_library_is_read_as_python_reads_it():
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(root.glob("*.py")) + sorted(root.glob("asyncio/*.py")) + sorted(root.glob("email/*.py"))
    assert len(paths) > 150
    for path in paths:
        source = path.read_text(encoding="utf-8")
        assert docstrings(source) == by_parsing(source), path


headers = st.sampled_from(
    [
        "def f():\n",
        "async def g(a=1, b={'x': ':'}) -> 'T':\n",
        "class C:\n",
        "class D(B, metaclass=M):  # why: a colon\n",
        "def h(\n    a: int = (1),  # def no(): 'x'\n) -> dict[str, int]:\n",
        "if x:\n",
    ]
)
statements = st.sampled_from(
    [
        '    "doc"\n',
        '    """doc\n\n      two"""\n',
        "    r'raw \\d'\n",
        "    u'old'\n",
        "    'a' 'b'\n",
        "    'a' \\\n  'b'\n",
        "    ('c'\n     'd')\n",
        "    ( # why\n\n ('c'\n)) ; x = 1\n",
        "    ('c', 'd')\n",
        "    ('c').x\n",
        "    b'bytes'\n",
        "    f'{1}'\n",
        "    'a' f'{1}'\n",
        "    'no' % 1\n",
        "    'no'.x\n",
        "    'yes'; x = 1\n",
        "    'yes'  # comment\n",
        "    # def no():\n",
        "\n",
        "    x = 'def no():'\n",
        '    y = """\ndef no():\n    "no"\n"""\n',
        "    'tab\\tnl\\\n\\x41\\u00e9\\N{BULLET}\\q\\101'\n",
        "    'it''s'\n",
        '    ""\n',
        '    """a\\"""b"""\n',
        '    """say "hi" """\n',
        "    '''''' 'z'\n",
        "    def inner(): 'one line'\n",
        "    class Inner:\n        'inner'\n",
    ]
)
blocks = st.tuples(headers, st.lists(statements, max_size=3)).map(
    lambda block: block[0] + "".join(block[1]) + "    pass\n"
)


@given(st.lists(statements, max_size=2), st.lists(blocks, max_size=5))
def test_any_source_that_python_accepts_is_read_as_python_reads_it(first, rest):
    source = "".join(line.replace("\n    ", "\n").removeprefix("    ") for line in first) + "".join(rest)
    assert docstrings(source) == by_parsing(source)


def test_line_ends_and_a_byte_order_mark_do_not_matter():
    source = '"""module"""\ndef f():\n    """first\n\n    second"""\n'
    expected = ["module", "first\n\nsecond"]
    assert docstrings(source) == expected
    assert docstrings("\ufeff" + source.replace("\n", "\r\n")) == expected
    assert docstrings(source.replace("\n", "\r")) == expected


def test_source_of_another_python_version_is_read_too():
    assert docstrings('def f():\n    """doc"""\n    print "old"\n') == ["doc"]
    assert docstrings('def f[T: int](a: T):\n    """doc"""\n') == ["doc"]


@pytest.mark.parametrize("source", ['x = """open', "x = 'open\n", "def f(a,\n", "def f(a\n  'open"])
def test_what_does_not_end_is_malformed(source):
    with pytest.raises(MalformedSource, match="does not end"):
        docstrings(source)
