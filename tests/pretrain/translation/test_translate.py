"""The command's work in one process: what is written, what is counted, what is refused, and going on."""

import gzip
import json
import math

import pytest
import torch

from conf.command import compose
from conf.errors import InputError
from pipeline.byte_bpe import train_byte_bpe
from pipeline.tokenizer import load_tokenizer, save_tokenizer, train_wordpiece
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.search import search
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.models.load import load_model
from pretrain.ranks import Ranks
from pretrain.translate import TranslateOptions
from pretrain.translation.dual_scores import Side, log_probabilities
from pretrain.translation.inputs import TextInput
from pretrain.translation.output import OutputDirectory
from pretrain.translation.work import translate
from tests.helpers.pair_directory import write_pair_directory
from tests.helpers.shard_directory import write_shards
from tests.helpers.translation import content, lines, sentences, write_model

ALONE = Ranks(0, 1, 0, 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def go(model, tmp_path, monkeypatch):
    """Translate `input` with options; the output's folder."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(path, *options, output="out", checkpoint=model):
        words = [f"checkpoint={checkpoint}", f"input={path}", f"output={tmp_path / output}", "chunk_bytes=300"]
        config = compose("translate", [*words, "decoding=greedy", *options], TranslateOptions)
        assert translate(config, ALONE) == "done"
        return tmp_path / output

    return run


def write(path, texts):
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def manifest(output):
    return json.loads((output / "manifest.json").read_text())


def counts(output):
    return {name: number for name, number in manifest(output)["counts"].items() if number and name != "cut_translation"}


# --- what is written ---


def test_each_source_has_its_best_translations_in_order_with_scores(go, model, tmp_path):
    texts = sentences(60)
    output = go(write(tmp_path / "in.txt", texts), "decoding=beam", "decoding.beams=3", "decoding.n_best=2")
    found = lines(output)
    assert [line["source"] for line in found] == texts
    offsets = [sum(len(text) + 1 for text in texts[:number]) for number in range(60)]
    assert [line["id"] for line in found] == [f"in.txt:{offset}" for offset in offsets]
    assert len(manifest(output)["chunks"]) > 3
    loaded = load_model(model)
    ids = [[2, *loaded.tokenizer.encode(text, add_special_tokens=False).ids, 3] for text in texts]
    expected = search(loaded.model, ids, BeamSearch(beams=3, n_best=2), texts, Vocabulary.of(loaded.tokenizer))
    for line, hypotheses in zip(found, expected, strict=True):
        assert [one["text"] for one in line["translations"]] == [
            loaded.tokenizer.decode(one.tokens) for one in hypotheses
        ]
        assert [one["score"] for one in line["translations"]] == pytest.approx([h.score for h in hypotheses], abs=1e-3)
    assert counts(output) == {"read": 60, "translated": 60} | {
        name: manifest(output)["counts"][name]
        for name in ["empty_translation"]
        if manifest(output)["counts"]["empty_translation"]
    }
    OutputDirectory(output, json.loads((output / "settings.json").read_text())).verify()


def test_compressed_files_patterns_and_jsonl_give_the_same_translations(go, tmp_path):
    texts = sentences(50)
    plain = go(write(tmp_path / "in.txt", texts), output="plain")
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress((tmp_path / "in.txt").read_bytes()))
    packed = go(tmp_path / "in.txt.gz", output="packed")
    assert [(line["source"], line["translations"]) for line in lines(packed)] == [
        (line["source"], line["translations"]) for line in lines(plain)
    ]
    assert len(manifest(packed)["chunks"]) == len(manifest(plain)["chunks"]) > 2
    for part, (name, chosen) in enumerate({"a.jsonl": texts[:20], "b.jsonl": texts[20:]}.items()):
        write(tmp_path / name, [json.dumps({"name": 100 * part + n, "de": text}) for n, text in enumerate(chosen)])
    objects = go(tmp_path / "*.jsonl", "text_key=de", "id_key=name", output="objects")
    assert [line["source"] for line in lines(objects)] == texts
    assert [line["id"] for line in lines(objects)] == [*map(str, range(20)), *(str(100 + n) for n in range(30))]


def test_sources_without_text_are_counted_and_have_an_empty_translation(go, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"bala\n\ngana\n   \n\xff\xfe bala bala bala bala bala bala bala bala\nhula")
    output = go(path)
    found = lines(output)
    assert [line["source"] for line in found[:4]] == ["bala", "", "gana", "   "] and found[5]["source"] == "hula"
    assert [number for number, line in enumerate(found) if not line["translations"][0]["text"]] >= [1, 3, 4]
    assert all(found[number]["translations"] == [{"text": "", "score": 0.0}] for number in (1, 3, 4))
    assert counts(output) == {"read": 6, "translated": 3, "empty_source": 2, "unreadable": 1} | {
        k: v for k, v in counts(output).items() if k == "empty_translation"
    }
    objects = write(tmp_path / "in.jsonl", ['{"text": "bala"}', '{"txt": "bala"}', "[1]", "{", '{"text": 3}', ""])
    assert counts(go(objects, output="objects"))["unreadable"] == 4


def test_an_empty_translation_is_counted(go, tmp_path, model):
    output = go(write(tmp_path / "in.txt", sentences(20)), "decoding.maximum_ratio=0", "decoding.maximum_length=1",
                "decoding.forbid=[pad,unk,cls,mask]")  # fmt: skip
    empty = sum(not line["translations"][0]["text"] for line in lines(output))
    assert manifest(output)["counts"]["empty_translation"] == empty
    assert manifest(output)["counts"]["cut_translation"] == sum(
        bool(line["translations"][0]["text"]) for line in lines(output)
    )


def test_a_source_beyond_the_models_positions_is_split_skipped_or_refused(go, tmp_path):
    texts = [*sentences(3), " ".join(["dorio"] * 60), "gana"]
    path = write(tmp_path / "in.txt", texts)
    split = go(path, output="split")
    assert counts(split)["split_source"] == 1 and counts(split)["translated"] == 5
    assert lines(split)[3]["translations"][0]["text"].count(" ") > 3
    skip = go(path, "long_sources=skip", output="skip")
    assert counts(skip)["skipped_long"] == 1 and lines(skip)[3]["translations"] == [{"text": "", "score": 0.0}]
    for number in (0, 1, 2, 4):
        one, other = lines(skip)[number], lines(split)[number]
        # They were in other batches, which may show in a score's last digit.
        (first,), (second,) = one.pop("translations"), other.pop("translations")
        assert one == other and first["text"] == second["text"]
        assert first["score"] == pytest.approx(second["score"], abs=2e-6)
    with pytest.raises(
        InputError, match=r"the source in.txt:\d+ must have at most 46 tokens .* but has \d+: set long.* output"
    ):
        go(path, "long_sources=refuse", output="refuse")
    assert not (tmp_path / "refuse" / "manifest.json").exists()


def test_languages_go_to_the_model_and_into_the_manifest(go, tmp_path, model):
    from tests.helpers.lively import lively_model

    path = write(tmp_path / "in.txt", sentences(5))
    output = go(path, "source_language=de", "target_language=en")
    assert manifest(output)["direction"] == {"source_language": "de", "target_language": "en"}
    assert lively_model(languages=("de", "en")).config.language_id("en", "x") == 1  # see test_search for what it does


def test_white_space_alone_is_an_empty_source_of_every_tokenizer(go, tmp_path):
    corpus = ["bala gana hula dorio"] * 4
    folder = tmp_path / "bytes"
    folder.mkdir()
    save_tokenizer(train_byte_bpe(corpus, 300), folder)
    from pretrain.models.huggingface import export_folder
    from tests.helpers.lively import lively_model

    tokenizer = load_tokenizer(folder)
    export_folder(lively_model(vocab_size=tokenizer.get_vocab_size()), folder / "tokenizer.json", folder / "model")
    path = write(tmp_path / "in.txt", ["bala", "  ", "\t\u3000", ""])
    output = go(path, checkpoint=folder / "model")
    assert counts(output)["empty_source"] == 3 and counts(output)["translated"] == 1
    assert [line["translations"][0]["score"] for line in lines(output)][1:] == [0.0] * 3


def test_ids_of_files_with_one_name_tell_them_apart(go, tmp_path):
    for folder in ("x/a", "y/a", "y/b"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder / "in.txt", ["bala"])
    write(tmp_path / "other.txt", ["gana"])
    paths = ",".join(str(tmp_path / name) for name in ("x/a/in.txt", "y/a/in.txt", "y/b/in.txt", "other.txt"))
    found = lines(go(f"[{paths}]"))
    assert [line["id"] for line in found] == ["x/a/in.txt:0", "y/a/in.txt:0", "b/in.txt:0", "other.txt:0"]


def test_progress_comes_to_the_end_of_a_short_file_with_its_last_sentence(tmp_path):
    source = TextInput([str(write(tmp_path / "in.txt", ["bala"] * 10))], "auto", "text", "id", 1 << 20)
    (chunk,) = source.chunks()
    assert [source.position(chunk, share) for share in (0.0, 0.5, 1.0)] == [0.0, 25.0, 50.0]


# --- going on, and what is refused ---


def test_a_finished_chunk_is_never_made_again_and_a_damaged_one_is(go, tmp_path):
    path = write(tmp_path / "in.txt", sentences(60))
    output = go(path)
    before = content(output)
    chunks = sorted((output / "translations").iterdir())
    times = [chunk.stat().st_mtime_ns for chunk in chunks]
    chunks[1].write_text(chunks[1].read_text()[:50])
    (output / "progress" / f"{chunks[2].stem}.json").unlink()
    (output / "manifest.json").unlink()
    go(path)
    assert content(output) == before
    after = [chunk.stat().st_mtime_ns for chunk in chunks]
    assert [old == new for old, new in zip(times, after, strict=True)] == [n not in (1, 2) for n in range(len(chunks))]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("decoding.length_penalty=0.5", "search.length_penalty=1.0, but now it is 0.5"),
        ("decoding=sample", "search"),
        ("long_sources=skip", "long_sources=split, but now it is skip"),
        ("chunk_bytes=200", "input.chunk_bytes=300, but now it is 200"),
        ("target_language=fr", "direction.target_language=None, but now it is fr"),
        ("precision=bf16", "precision=fp32, but now it is bf16"),
    ],
)
def test_a_directory_begun_with_other_options_is_refused(go, tmp_path, change, named):
    path = write(tmp_path / "in.txt", sentences(5))
    go(path)
    with pytest.raises(InputError, match=f"was begun with {named}"):
        go(path, change)


def test_another_input_or_model_is_refused(go, tmp_path):
    path = write(tmp_path / "in.txt", sentences(5))
    go(path)
    write(path, sentences(5, seed=1))
    with pytest.raises(InputError, match=r"was begun with input\.files\.0\.fingerprint="):
        go(path)
    write(path, sentences(5))
    with pytest.raises(InputError, match="was begun with checkpoint=sha256:"):
        go(path, checkpoint=write_model(tmp_path / "other", seed=3))


def test_bad_input_is_one_sentence(go, tmp_path):
    path = write(tmp_path / "in.txt", sentences(5))
    with pytest.raises(InputError, match=r"input '.*nothing.txt' matches no file"):
        go(tmp_path / "nothing.txt")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(InputError, match="is not text in utf-8"):
        go(tmp_path / "binary", output="b")
    write(tmp_path / "in.jsonl", ['{"txt": "bala", "n": 1}', "{", '{"text": 3}'])
    with pytest.raises(
        InputError, match=r"none of the first 3 lines .* under the key 'text' .* first object has txt, n$"
    ):
        go(tmp_path / "in.jsonl", output="key")
    with pytest.raises(
        InputError, match=r"must have a JSON object a line, but none of its first 5 lines is one: .*=text"
    ):
        go(path, "format=jsonl", output="key")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=r"the input is empty: '.*empty.txt' has 0 bytes"):
        go(tmp_path / "empty.txt", output="key")
    assert not (tmp_path / "key").exists()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"must be empty or a translation that was begun, but holds 'thesis.tex'"):
        go(path, output="taken")
    data = gzip.compress("".join(f"{text}\n" for text in sentences(8000)).encode())
    (tmp_path / "short.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"short.gz' is damaged after byte"):
        go(tmp_path / "short.gz", "chunk_bytes=100000000", output="damaged")


def test_half_precision_and_every_search_run_through(go, tmp_path):
    path = write(tmp_path / "in.txt", sentences(12))
    found = {}
    for search_name in ("greedy", "beam", "sample", "noised_beam"):
        output = go(path, f"decoding={search_name}", "precision=bf16", output=search_name)
        found[search_name] = [line["translations"][0] for line in lines(output)]
        assert all(math.isfinite(one["score"]) and one["score"] < 0 for one in found[search_name])
    assert [one["text"] for one in found["beam"]] != [one["text"] for one in found["noised_beam"]]
    blanks = [one["text"][start:end] for one in found["noised_beam"] for start, end in one.get("blanks", ())]
    assert blanks and set(blanks) == {"[MASK]"}
    assert len(blanks) == sum(one["text"].count("[MASK]") for one in found["noised_beam"])
    assert not any("[MASK]" in one["text"] or "blanks" in one for one in found["beam"])


def test_a_masked_language_model_is_refused(go, tmp_path, model):
    from pretrain.models.huggingface import export_folder
    from tests.pretrain.models.conftest import FORMS, make_model

    export_folder(make_model(FORMS["bert"], 90), model / "tokenizer.json", tmp_path / "encoder")
    with pytest.raises(InputError, match="must hold a model with a decoder, but holds an encoder"):
        go(write(tmp_path / "in.txt", ["bala"]), checkpoint=tmp_path / "encoder")


def pairs_of(texts, tokenizer):
    """Rows of pairs, the texts on the target's side."""
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return [([2, *one[::-1], 3], [2, *one, 3], 0, math.nan) for one in ids]


def test_one_side_of_shards_of_pairs_is_translated_as_its_text_is(go, tmp_path, model):
    texts = sentences(30)
    rows = {"00000-aaaaaaaa.train": pairs_of(texts, load_tokenizer(model))}
    write_pair_directory(tmp_path / "shards", model, rows)
    shards = go(tmp_path / "shards", "side=target", "chunk_bytes=1000", output="shards_out")
    text = go(write(tmp_path / "in.txt", texts), output="text_out")
    assert [line["id"] for line in lines(shards)] == [f"train:{row}" for row in range(30)]
    for ours, plain in zip(lines(shards), lines(text), strict=True):
        assert ours["source"] == plain["source"]
        assert ours["translations"][0]["text"] == plain["translations"][0]["text"]
    assert len(manifest(shards)["chunks"]) == 3
    other = go(tmp_path / "shards", "side=source", "chunk_bytes=1000", output="source_out")
    assert [line["source"] for line in lines(other)] != [line["source"] for line in lines(shards)]


def test_pieces_of_packed_rows_are_translated_as_their_text_is(go, tmp_path, model):
    texts = [*sentences(30, longest=5), " ".join(["dorio"] * 60)]
    own, other = load_tokenizer(model), train_byte_bpe(texts, 400)
    text = go(write(tmp_path / "in.txt", texts), output="text_out")
    expected = {line["source"]: line["translations"][0]["text"] for line in lines(text)}
    for name, tokenizer in (("own", own), ("other", other)):
        write_shards(tmp_path / name, texts, row_length=120, held_out=0, tokenizer=tokenizer)
        found = go(tmp_path / name, "chunk_bytes=480", output=f"{name}_out")
        assert {line["source"]: line["translations"][0]["text"] for line in lines(found)} == expected
        assert len(lines(found)) == 31 and len(manifest(found)["chunks"]) > 1
        assert counts(found)["translated"] == 31 and counts(found)["split_source"] == counts(text)["split_source"] == 1
    write_shards(tmp_path / "unknown", ["bala \N{SNOWMAN}", "bala"], held_out=0, tokenizer=own)
    unknown = go(tmp_path / "unknown", output="unknown_out")
    assert [line["source"] for line in lines(unknown)] == ["bala [UNK]", "bala"]
    assert lines(unknown)[0]["translations"] == [{"text": "", "score": 0.0}] and counts(unknown)["unreadable"] == 1
    with pytest.raises(InputError, match=r"must have at most 46 tokens .* but has \d+: set long_sources="):
        go(tmp_path / "own", "long_sources=refuse", output="refused")


def test_a_model_of_the_other_direction_scores_what_is_translated(go, tmp_path, model):
    forward = write_model(tmp_path / "forward", seed=3)
    path = write(tmp_path / "in.txt", [*sentences(20), ""])
    words = ["decoding=beam", "decoding.beams=2", "decoding.n_best=2", "decoding.maximum_ratio=0.5"]
    plain, scored = go(path, *words, output="plain"), go(path, *words, f"score_with={forward}", output="scored")
    names = ["reverse_score", "forward_score", "dual_score"]
    found = lines(scored)
    for line, without in zip(found, lines(plain), strict=True):
        for output, before in zip(line["translations"], without["translations"], strict=True):
            assert {name: value for name, value in output.items() if name not in names} == before
            assert [name for name in output if name not in before] == names
    outputs = [output for line in found for output in line["translations"]]
    assert counts(scored)["unscored"] == sum(output["dual_score"] is None for output in outputs) >= 1
    loaded, other = load_model(model), load_model(forward)
    vocabulary = Vocabulary.of(loaded.tokenizer)
    for line in found[:10]:
        best = line["translations"][0]
        source, text = (loaded.tokenizer.encode(one).ids[1:-1] for one in (line["source"], best["text"]))
        for name, by, read, written in (
            ("reverse_score", loaded, source, text),
            ("forward_score", other, text, source),
        ):
            (expected,) = log_probabilities(Side(by.model, 48), [read], [written], vocabulary, 100)
            assert best[name] == pytest.approx(expected, rel=1e-5)
    assert manifest(scored)["score_with"] == load_model(forward).fingerprint
    assert "score_with" not in manifest(plain)
    before = content(scored)
    sorted((scored / "progress").iterdir())[1].unlink()
    go(path, *words, f"score_with={forward}", output="scored")
    assert content(scored) == before
    with pytest.raises(InputError, match="was begun with score_with=sha256"):
        go(path, *words, output="scored")


def test_a_model_that_cannot_score_the_translations_is_refused(go, tmp_path, model):
    path = write(tmp_path / "in.txt", ["bala"])
    with pytest.raises(InputError, match=r"score_with must be a model of the other direction, but .* has the weights"):
        go(path, f"score_with={model}")
    forward = write_model(tmp_path / "forward", seed=3)
    with pytest.raises(InputError, match=r"score_with does not go with decoding\.prefix"):
        go(path, f"score_with={forward}", "decoding.prefix=[unk]")
    save_tokenizer(train_wordpiece(["other words entirely"] * 3, 60), forward)
    with pytest.raises(InputError, match=r"the tokenizer of score_with .* must be that of .*, for scores are compared"):
        go(path, f"score_with={forward}")


def test_shards_in_another_language_or_of_another_tokenizer_are_refused(go, tmp_path, model):
    rows = {"00000-aaaaaaaa.train": pairs_of(["bala"], load_tokenizer(model))}
    write_pair_directory(tmp_path / "shards", model, rows)
    languages = json.loads((tmp_path / "shards" / "manifest.json").read_text())["languages"]
    with pytest.raises(InputError, match=f"the source side of .* is in '{languages['source']}', .*; set side=target"):
        go(tmp_path / "shards", f"source_language={languages['target']}")
    save_tokenizer(train_wordpiece(["other words entirely"] * 3, 60), tmp_path)
    write_pair_directory(tmp_path / "foreign", tmp_path, {"00000-aaaaaaaa.train": [([2, 9, 3], [2, 9, 3], 0, 0.0)]})
    with pytest.raises(InputError, match=r"the tokenizer of .*foreign' is not that of the model"):
        go(tmp_path / "foreign")
    with pytest.raises(InputError, match="must be files or one shard directory"):
        go(f"[{tmp_path / 'foreign'},{tmp_path / 'shards'}]")
