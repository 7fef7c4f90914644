"""`benchmarks.pll`: the bare passes are those of the scores, figures are written, a wrong place is one sentence."""

import json
import sys

import numpy as np
import pytest
import torch

from benchmarks import pll
from conf.errors import InputError
from pipeline.tokenizer import train_wordpiece
from pretrain.evaluation.scoring import Scoring, score_items
from pretrain.models.config import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel


def test_runs_through_and_writes_its_figures(tmp_path, monkeypatch, capsys):
    words = ["--quick", "--pairs", "60", "--clock", "cpu", "--json", str(tmp_path / "figures.json")]
    monkeypatch.setattr(sys, "argv", ["pll", *words])
    pll.main()
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures.keys() == {"forward_ratio", "minutes_blimp"} and min(figures.values()) > 0
    assert "distinct masked sentences" in " ".join(capsys.readouterr().out.split())


def test_the_bare_passes_are_those_that_the_scores_need():
    pairs = pll.own_pairs(30)
    tokenizer = train_wordpiece([text for pair in pairs for text in (pair.good, pair.bad)], 300, min_frequency=1)
    model = MaskedLanguageModel(EncoderConfig(16, 1, 2, 16), 300).eval()
    batches, passes, tokens = pll.bare_batches(tokenizer, pairs, 256)
    seen = []
    encoder = model.encoder.forward
    model.encoder.forward = lambda ids, *rest, **more: (seen.append(ids), encoder(ids, *rest, **more))[1]
    score_items(model, tokenizer, pairs, Scoring(), tokens_per_batch=256)
    assert [ids.tolist() for ids in seen] == [ids.tolist() for ids, *_ in batches]
    assert sum(len(targets) for *_, targets in batches) == passes and sum(map(len, seen)) == tokens
    assert torch.cat(seen).max() < 300 and np.isfinite(tokens)


def test_a_place_without_blimp_is_refused(tmp_path):
    with pytest.raises(InputError, match="task blimp lacks its test split"):
        pll.blimp_pairs(tmp_path, 67)
