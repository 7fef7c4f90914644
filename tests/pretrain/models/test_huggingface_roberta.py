"""RoBERTa comes in as the BERT model that computes the same, and goes out as one."""

import json

import pytest
import torch
from transformers import AutoModelForMaskedLM, RobertaConfig, RobertaForMaskedLM, RobertaModel

from conf.errors import InputError
from pretrain.data.batching import pad_sequences
from pretrain.models.huggingface import export_folder, import_folder

# RoBERTa's own special ids: <s> 0, <pad> 1, </s> 2.
SEQUENCES = [[0, 11, 12, 13, 60, 2], [0, 21, 2], [0, *range(5, 51), 2]]
CONFIG = {
    "vocab_size": 75,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 50,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "initializer_range": 0.2,
}


def padded(sequences):
    width = max(map(len, sequences))
    ids = torch.tensor([[*s, *[1] * (width - len(s))] for s in sequences])
    return ids, (ids != 1).long()


def our_logits(model):
    input_ids, position_ids, layout, starts = pad_sequences(SEQUENCES, 1)
    real = torch.cat([int(start) + torch.arange(len(s)) for start, s in zip(starts, SEQUENCES, strict=True)])
    with torch.no_grad():
        return model(input_ids, position_ids, layout, real)


def test_roberta_gives_its_logits_up_to_its_last_position(tmp_path, tokenizer_folder):
    torch.manual_seed(0)
    theirs = RobertaForMaskedLM(RobertaConfig(**CONFIG)).eval()
    with torch.no_grad():
        theirs.lm_head.bias.normal_()
    theirs.save_pretrained(tmp_path / "roberta")
    model, _ = import_folder(tmp_path / "roberta")
    assert (model.config.max_positions, model.config.token_types) == (48, 1)
    ids, mask = padded(SEQUENCES)
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask).logits[mask.bool()]
    torch.testing.assert_close(our_logits(model), expected, atol=1e-5, rtol=0)
    export_folder(model, tokenizer_folder, tmp_path / "out")
    bert = AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    assert type(bert).__name__ == "BertForMaskedLM"
    with torch.no_grad():
        exported = bert(input_ids=ids, attention_mask=mask).logits[mask.bool()]
    torch.testing.assert_close(exported, expected, atol=1e-5, rtol=0)


def test_a_bare_roberta_gets_a_fresh_head(tmp_path):
    theirs = RobertaModel(RobertaConfig(**CONFIG)).eval()
    theirs.save_pretrained(tmp_path / "roberta")
    model, _ = import_folder(tmp_path / "roberta")
    with torch.no_grad():
        expected = theirs(input_ids=torch.tensor(SEQUENCES[:1])).last_hidden_state[0]
        states = model.encoder(*pad_sequences(SEQUENCES[:1], 1)[:3])
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=0)


def test_a_position_table_of_another_size_is_refused(tmp_path):
    RobertaModel(RobertaConfig(**CONFIG)).save_pretrained(tmp_path / "roberta")
    path = tmp_path / "roberta" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": 60}))
    with pytest.raises(
        InputError, match=r"have 50 rows in '.*position_embeddings\.weight', but .* 60 and pad_token_id 1"
    ):
        import_folder(tmp_path / "roberta")
