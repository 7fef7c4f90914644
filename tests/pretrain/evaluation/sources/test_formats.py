"""Rows of tsv, csv, jsonl and XML: what is read, and that a bad row is an error at its own line."""

import csv as standard_csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.sources import csv, jsonl, tsv, xml
from pretrain.evaluation.sources.files import DataFile

CELL = st.text(st.characters(exclude_characters="\t\n\r\ufeff", exclude_categories=("Cs",)), max_size=8)
TEXT = st.text(st.characters(exclude_characters="\r\ufeff\x00", exclude_categories=("Cs",)), max_size=8)


def file_of(folder, content, name="data.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return DataFile(path, None, ())


def values(rows):
    return [dict(row.values) for row in rows]


@given(st.lists(st.tuples(CELL, CELL), max_size=6))
def test_any_cells_come_back_from_tsv_quotes_and_all(tmp_path_factory, cells):
    text = "a\tb\n" + "".join(f"{a}\t{b}\n" for a, b in cells)
    rows = values(tsv.rows(file_of(tmp_path_factory.getbasetemp(), text), "dev"))
    assert rows == [{"a": a, "b": b} for a, b in cells]


def test_a_quote_in_a_tsv_swallows_no_row(tmp_path):
    rows = list(tsv.rows(file_of(tmp_path, '\ufeffa\tb\r\n"open\t1\r\nx\ty"\r\n'), "dev"))
    assert values(rows) == [{"a": '"open', "b": "1"}, {"a": "x", "b": 'y"'}]
    assert [row.number for row in rows] == [0, 1] and rows[1].where.endswith("data.txt', line 3")


def test_a_tsv_row_of_another_length_is_an_error_at_its_line(tmp_path):
    file = file_of(tmp_path, "a\tb\n1\t2\n3\n4\t5\n")
    with pytest.raises(InputError, match=r"data.txt', line 3, must have 2 tab-separated cells \(a, b\), but has 1"):
        list(tsv.rows(file, "dev"))
    assert values(tsv.rows(file, "dev", short="leave_out")) == [{"a": "1", "b": "2"}, {"a": "4", "b": "5"}]
    assert file.notes == [f"'{file.name}': 1 rows with too few cells are left out (lines 3)"]
    with pytest.raises(InputError, match="but has 3"):
        list(tsv.rows(file_of(tmp_path, "a\tb\n1\t2\t3\n"), "dev", short="leave_out"))


def test_headers(tmp_path):
    assert values(tsv.rows(file_of(tmp_path, "1\t2\n"), "dev", columns=("a", "b"))) == [{"a": "1", "b": "2"}]
    assert values(csv.rows(file_of(tmp_path, "1,2\n"), "dev", columns=("a", "b"))) == [{"a": "1", "b": "2"}]
    for reader in (tsv.rows, csv.rows):
        with pytest.raises(InputError, match="must have a header row, but is empty"):
            list(reader(file_of(tmp_path, ""), "dev"))
    for reader, text in ((tsv.rows, "a\ta\n"), (csv.rows, "a,a\n")):
        with pytest.raises(InputError, match="line 1, must name each column once"):
            list(reader(file_of(tmp_path, text), "dev"))


@given(st.lists(st.tuples(TEXT, TEXT), max_size=6))
def test_any_texts_come_back_from_csv(tmp_path_factory, cells):
    buffer = io.StringIO()
    standard_csv.writer(buffer, lineterminator="\n", quoting=standard_csv.QUOTE_ALL).writerows([("a", "b"), *cells])
    rows = values(csv.rows(file_of(tmp_path_factory.getbasetemp(), "\ufeff" + buffer.getvalue()), "dev"))
    assert rows == [{"a": a, "b": b} for a, b in cells]


def test_csv_rows_are_named_by_the_line_on_which_they_start(tmp_path):
    rows = list(csv.rows(file_of(tmp_path, 'a,b\n"one\ntwo",1\nx,"say ""y"""\n'), "dev"))
    assert values(rows) == [{"a": "one\ntwo", "b": "1"}, {"a": "x", "b": 'say "y"'}]
    assert [row.where.rpartition(" ")[2] for row in rows] == ["2", "4"]
    with pytest.raises(InputError, match=r"line 4, must have 2 cells \(a, b\), but has 3"):
        list(csv.rows(file_of(tmp_path, 'a,b\n"one\ntwo",1\nx,y,z\n'), "dev"))
    with pytest.raises(InputError, match=r"line 2, is not quoted csv: unexpected end of data"):
        list(csv.rows(file_of(tmp_path, 'a,b\n"never closed,1\nx,y\n'), "dev"))


def test_jsonl_rows_and_lines_that_are_none(tmp_path):
    text = '{"a": "x\u2028y"}\n\n{"a": 2}'
    rows = list(jsonl.rows(file_of(tmp_path, text), "dev"))
    assert values(rows) == [{"a": "x\u2028y"}, {"a": 2}] and rows[1].where.endswith("line 3") and rows[1].number == 1
    with pytest.raises(InputError, match=r"line 2, is not JSON"):
        list(jsonl.rows(file_of(tmp_path, '{"a": 1}\n{oops\n'), "dev"))
    with pytest.raises(InputError, match=r"line 1, must be a JSON object, but is a list"):
        list(jsonl.rows(file_of(tmp_path, "[1]\n"), "dev"))


def test_labels_of_a_second_file(tmp_path):
    rows = file_of(tmp_path, "".join(json.dumps({"t": name}) + "\n" for name in "abc"), "rows.jsonl")

    def read(labels):
        return values(jsonl.rows_with_labels(rows, file_of(tmp_path, labels, "labels.lst"), "dev", among=("0", "1")))

    assert read("1\n0\n1\n") == [{"t": "a", "label": "1"}, {"t": "b", "label": "0"}, {"t": "c", "label": "1"}]
    for labels, count in (("1\n0\n", 2), ("1\n0\n1\n1\n", 4)):
        with pytest.raises(
            InputError, match=rf"labels.lst' must have a label for each of the 3 rows .* but has {count}"
        ):
            read(labels)
    with pytest.raises(InputError, match=r"labels.lst', line 2, must be one of 0, 1, but is '2'"):
        read("1\n2\n0\n")


def test_xml_elements_with_attributes_paths_and_lines(tmp_path):
    head = '<?xml version="1.0"?>\n<!DOCTYPE c SYSTEM "c.dtd">\n<c>\n'
    text = head + '<i id="1"><a>x &amp; y</a><b><c>1</c><c>2</c></b></i>\n<i/></c>'
    rows = list(xml.rows(file_of(tmp_path, text), "test", "i"))
    assert rows[0].values == {"@id": "1", "a": ["x & y"], "b/c": ["1", "2"], "b": [""]}
    assert [row.where.rpartition(" ")[2] for row in rows] == ["4", "5"] and rows[1].values == {}
    with pytest.raises(InputError, match="line 2, is not XML: mismatched tag"):
        list(xml.rows(file_of(tmp_path, "<c>\n<i></c>"), "test", "i"))
    with pytest.raises(InputError, match="must hold elements <i>, but has none"):
        list(xml.rows(file_of(tmp_path, "<c/>"), "test", "i"))


def test_an_xml_entity_of_another_file_is_not_read(tmp_path):
    (tmp_path / "secret").write_text("secret")
    text = f'<!DOCTYPE c [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]><c><i><a>&e;</a></i></c>'
    (row,) = xml.rows(file_of(tmp_path, text), "test", "i")
    assert "secret" not in str(row.values)
