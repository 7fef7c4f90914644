"""`benchmarks.decode`: lengths are those asked for on both sides, ratios are written, wrong files are one sentence."""

import gzip
import json
import sys

import pytest

from benchmarks import decode
from conf.errors import InputError


def test_runs_through_and_writes_its_ratios(tmp_path, monkeypatch, capsys):
    words = ["--quick", "--shape", "tiny", "--sentences", "6", "--batch", "4", "--clock", "cpu"]
    monkeypatch.setattr(sys, "argv", ["decode", *words, "--json", str(tmp_path / "ratios.json")])
    decode.main()
    ratios = json.loads((tmp_path / "ratios.json").read_text())
    orders = [f"{search}_{order}" for search in ("greedy", "beam") for order in ("unsorted", "sorted")]
    assert ratios.keys() == {f"transformers_ratio_{order}" for order in orders}
    assert all(value > 0 for value in ratios.values())
    assert "6 sentences of synthetic lengths" in capsys.readouterr().out


@pytest.mark.parametrize("beams", [1, 3])
def test_both_sides_end_every_sentence_at_its_length(tmp_path, beams, monkeypatch):
    sentences = decode.synthetic(5, decode.SHAPES["tiny"][3])
    contest = decode.Contest("tiny", sentences, "fp32", "wall", tmp_path)
    contest.ours(beams, 400)  # asserts the lengths of its own
    seen = []
    generate = contest.theirs.generate
    monkeypatch.setattr(contest.theirs, "generate", lambda **options: seen.append(generate(**options)))
    contest.peer(beams, by_length=False, batch=5)
    assert [row[1:].tolist().index(decode.SEP) + 1 for row in seen[0]] == sentences.lengths


def test_lengths_are_spread_as_those_of_sentences():
    sentences = decode.synthetic(2000, 100)
    sizes = sorted(len(source) - 2 for source in sentences.sources)
    assert 21 < sum(sizes) / 2000 < 26 and sizes[200] < 12 and sizes[1800] > 38
    assert abs(sum(sentences.lengths) / sum(sizes) - 1) < 0.05


def test_a_file_of_pairs_gives_its_lengths(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(b"1\ta b c d\te f\n2\tg\th i j\nno columns\n3\t\tx\n"))
    sentences = decode.from_file(path, [1, 2], 10, 100)
    found = zip(map(len, sentences.sources), sentences.lengths, strict=True)
    assert sorted(found) == [(4, 5), (8, 4)]
    for text, sentence in (
        ("one column\n", "lines with texts in the columns 0 and 1"),
        (b"\xff\xff", "cannot be read as one"),
    ):
        wrong = tmp_path / "wrong.tsv"
        wrong.write_bytes(text.encode() if isinstance(text, str) else text)
        with pytest.raises(InputError, match=sentence):
            decode.from_file(wrong, [0, 1], 10, 100)
