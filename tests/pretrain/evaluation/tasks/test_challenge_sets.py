"""Challenge sets: HANS, ANLI, PAWS, XNLI, Winogender, WinoBias, BLiMP and pairs of one's own."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.tasks.anli import anli
from pretrain.evaluation.tasks.blimp import blimp
from pretrain.evaluation.tasks.hans import hans
from pretrain.evaluation.tasks.pairs_jsonl import pairs_jsonl
from pretrain.evaluation.tasks.paws import paws
from pretrain.evaluation.tasks.winobias import winobias
from pretrain.evaluation.tasks.winogender import sentence_of, winogender
from pretrain.evaluation.tasks.xnli import xnli

from .original_layouts import named, table, write


def facts_of_the_report(definition):
    """The facts that a definition's slices, gaps and trends name, but for the label."""
    names = {fact for slice_ in definition.slices for fact in slice_}
    names |= {fact for gap in definition.gaps for fact in (gap.fact, gap.within)}
    names |= {fact for trend in definition.trends for fact in (trend.fact, trend.unit, trend.figure)}
    return names - {"label", None}


def test_hans_keeps_what_its_report_needs(tmp_path):
    columns = ("gold_label", "sentence1", "sentence2", "pairID", "heuristic", "subcase", "template")
    rows = [("non-entailment", "a", "b", "ex0", "lexical_overlap", "ln_x/y", "temp1"),
            ("entailment", "c", "d", "ex1", "constituent", "ce_z", "temp2")]  # fmt: skip
    files = write(tmp_path, **{"heuristics_evaluation_set.txt": table(columns, *rows)})
    items = hans().read(files, "test")
    assert named(hans(), items) == ["non-entailment", "entailment"] and [item.group for item in items] == [
        "temp1",
        "temp2",
    ]
    assert items[0].facts == {"heuristic": "lexical_overlap", "subcase": "ln_x/y", "template": "temp1"}
    assert facts_of_the_report(hans()) <= set(items[0].facts)
    assert hans().folds == {"entailment": "entailment", "neutral": "non-entailment", "contradiction": "non-entailment"}
    assert set(hans().folds.values()) == set(hans().labels)


def test_anli_rounds_are_apart_and_letters_are_labels(tmp_path):
    row = {"uid": "u1", "context": "c", "hypothesis": "h", "genre": "wikipedia", "tag": "r1_dev"}
    files = write(
        tmp_path,
        **{
            "anli_v1.0.zip/anli_v1.0/R1/dev.jsonl": [{**row, "label": label} for label in "cen"],
            "anli_v1.0.zip/anli_v1.0/R2/dev.jsonl": [{**row, "label": "e"}],
        },
    )
    items = anli(1).read(files, "dev")
    assert named(anli(1), items) == ["contradiction", "entailment", "neutral"]
    assert [item.id for item in items] == ["u1", "u1#2", "u1#3"] and items[0].facts["tag"] == "r1_dev"
    assert len(anli(2).read(files, "dev")) == 1


def test_paws_has_three_parts(tmp_path):
    header, rows = ("id", "sentence1", "sentence2"), [(1, "`` a ''", 'b "', 1), (2, "c", "d", 0)]
    files = write(
        tmp_path,
        **{
            "paws_wiki_labeled_final.tar.gz/final/test.tsv": table((*header, "label"), *rows),
            "paws_wiki_labeled_swap.tar.gz/swap/train.tsv": table((*header, "label"), rows[0]),
            "paws_wiki_unlabeled_final.tar.gz/unlabeled/final/dev.tsv": table((*header, "noisy_label"), rows[1]),
        },
    )
    assert named(paws(), paws().read(files, "test")) == ["paraphrase", "not_paraphrase"]
    assert named(paws("swap"), paws("swap").read(files, "train")) == ["paraphrase"]
    assert named(paws("unlabeled"), paws("unlabeled").read(files, "dev")) == ["not_paraphrase"]


XNLI = ("language", "gold_label", "sentence1", "sentence2", "promptID", "pairID", "genre")


def test_xnli_takes_one_language_and_knows_the_spelling_of_its_training_rows(tmp_path):
    rows = [("de", "neutral", 'Er sagte "ja', "x", 1, 11, "letters"), ("en", "entailment", "a", "b", 1, 11, "letters"),
            ("de", "contradiction", "c", "d", 1, 12, "letters")]  # fmt: skip
    training = table(("premise", "hypo", "label"), ("a", "b", "contradictory"), ("c", "d", "entailment"))
    files = write(
        tmp_path,
        **{
            "XNLI-1.0.zip/XNLI-1.0/xnli.dev.tsv": table(XNLI, *rows),
            "XNLI-1.0.zip/XNLI-1.0/xnli.test.tsv": table(XNLI, *rows[:1]),
            "XNLI-MT-1.0.zip/XNLI-MT-1.0/multinli/multinli.train.de.tsv": training,
        },
    )
    items = xnli("de").read(files, "dev")
    assert named(xnli(), items) == ["neutral", "contradiction"] and [item.id for item in items] == ["11", "12"]
    assert [item.group for item in items] == ["1", "1"] and items[0].text_a == 'Er sagte "ja'
    assert named(xnli(), xnli("de").read(files, "train")) == ["contradiction", "entailment"]
    with pytest.raises(InputError, match=r"multinli.train.fr.tsv"):
        xnli("fr").read(files, "train")


def test_winogender_has_six_sentences_a_template(tmp_path):
    header = ("occupation(0)", "other-participant(1)", "answer", "sentence")
    rows = [("baker", "guest", 1, "The $OCCUPATION met the $PARTICIPANT and $NOM_PRONOUN ate."),
            ("baker", "guest", 0, "The $PARTICIPANT met the $OCCUPATION and paid $ACC_PRONOUN.")]  # fmt: skip
    statistics = table(("occupation", "bergsma_pct_female", "bls_pct_female", "bls_year"), ("baker", 40.5, 56.2, 2015))
    files = write(tmp_path, **{"templates.tsv": table(header, *rows), "occupations-stats.tsv": statistics})
    items = {item.id: item for item in winogender().read(files, "test")}
    assert len(items) == 12
    item = items["baker.guest.1.someone.female"]
    assert item.prefix == 'The baker met someone and she ate. "she" refers to '
    assert (item.options, item.suffix, item.label, item.group) == (("the baker", "someone"), ".", 1, "baker.guest.1")
    assert item.facts == {
        "gender": "female", "occupation": "baker", "participant": "someone", "refers_to": "participant",
        "gotcha": "yes", "bergsma_pct_female": "40.5", "bls_pct_female": "56.2",
    }  # fmt: skip
    assert facts_of_the_report(winogender()) <= set(item.facts)
    # The statistics' majority of bakers are women: "he" as the baker goes against it, "he" as the guest does not.
    assert [items[f"baker.guest.{answer}.{gender}"].facts["gotcha"] for answer, gender in
            ((0, "male"), (1, "male"), (0, "female"), (1, "female"))] == ["yes", "no", "no", "yes"]  # fmt: skip
    assert "gotcha" not in items["baker.guest.0.neutral"].facts
    other = items["baker.guest.0.male"]
    assert (
        other.prefix == 'The guest met the baker and paid him. "him" refers to '
        and other.options[other.label] == "the baker"
    )
    assert items["baker.guest.0.someone.neutral"].prefix.startswith("Someone met the baker and paid them.")
    bad = write(
        tmp_path / "x",
        **{"templates.tsv": table(header, ("a", "b", 0, "No one.")), "occupations-stats.tsv": statistics},
    )
    with pytest.raises(InputError, match=r"templates.tsv', line 2, field 'sentence', must hold \$NOM_PRONOUN"):
        winogender().read(bad, "test")


def test_winogender_grammar():
    template = "$NOM_PRONOUN was with a $PARTICIPANT, $POSS_PRONOUN hat lost; the $OCCUPATION was late."
    assert (
        sentence_of(template, "cook", "guest", "neutral")
        == "They were with a guest, their hat lost; the cook was late."
    )
    template = template.replace("$NOM_PRONOUN", "There $NOM_PRONOUN")
    assert (
        sentence_of(template, "cook", "someone", "neutral")
        == "There they were with someone, their hat lost; the cook was late."
    )
    assert sentence_of(template, "cook", "someone", "male").startswith("There he was with someone, his hat")


def conll(name, *words, end=True):
    """Words, each `word` or `word|mark`."""
    lines = [f"#begin document (nw/{name}); part 000"]
    for number, word in enumerate(words):
        text, _, mark = word.partition("|")
        lines.append(
            "\t".join([f"nw/{name}", "0", str(number), text, *["-"] * 5, "Speaker#1", *["*"] * 4, mark or "-"])
        )
    return "\n".join([*lines, "", *(["#end document"] if end else [])]) + "\n"


def test_winobias_finds_the_other_occupation(tmp_path):
    pro = conll("dev_type1/stereotype//0", "The|(1", "cook|1)", "met", "the", "nurse", "because", "he|(1)", "ate", ".")
    anti = conll(
        "dev_type1/not_stereotype//0",
        "The",
        "cook",
        "met",
        "the|(2",
        "CEO|2)",
        "'s",
        "dog",
        "as",
        "she|(2)",
        "ran",
        ".",
    )
    words = ("The", "construction", "worker", "paid", "the", "teacher|(3)", "for", "her|(3)", "time", ".")
    last = conll("dev_type1/stereotype//1", *words, end=False)
    names = [f"dev_type1_{style}_stereotype.v4_auto_conll" for style in ("pro", "anti")]
    files = write(tmp_path, **dict(zip(names, (pro + last, anti), strict=True)))
    items = winobias().read(files, "dev")
    assert [item.prefix for item in items] == [
        'The cook met the nurse because he ate. "he" refers to ',
        'The construction worker paid the teacher for her time. "her" refers to ',
        'The cook met the CEO\'s dog as she ran. "she" refers to ',
    ]
    assert [item.options for item in items] == [
        ("the cook", "the nurse"), ("the construction worker", "the teacher"), ("the cook", "the CEO"),
    ]  # fmt: skip
    assert [item.label for item in items] == [0, 1, 1]
    assert [item.facts["stereotype"] for item in items] == ["stereotypical", "stereotypical", "anti_stereotypical"]
    assert [item.facts["gender"] for item in items] == ["male", "female", "female"]
    assert facts_of_the_report(winobias()) <= set(items[0].facts)
    only = write(tmp_path / "one", **{names[0]: pro})
    assert len(winobias("type1", "pro").read(only, "dev")) == 1
    with pytest.raises(InputError, match="winobias_type1 lacks its dev split"):
        winobias().read(only, "dev")


def test_a_winobias_sentence_cut_short_is_an_error_at_its_line(tmp_path):
    name = "test_type2_pro_stereotype.v4_auto_conll"
    whole = conll("test_type2/stereotype//0", "The|(1", "cook|1)", "met", "the", "nurse", "and", "he|(1)", "ate", ".")
    cut = conll("test_type2/stereotype//1", "The", "cook", end=False)
    files = write(tmp_path, **{name: whole + cut})
    with pytest.raises(
        InputError, match=r"conll', line 13, the sentence must mark a pronoun and one of two occupations"
    ):
        winobias("type2", "pro").read(files, "test")


def blimp_row(number, **more):
    row = {"sentence_good": f"Ann eats {number}.", "sentence_bad": f"Ann eat {number}.", "UID": "agreement"}
    return {**row, "pairID": str(number), "field": "syntax", "linguistics_term": "agr", **more}


def test_blimp_pairs_equal_ones_among_them(tmp_path):
    rows = [blimp_row(0), blimp_row(1, sentence_bad="Ann eats 1.")]  # the published set has such pairs: ties
    files = write(
        tmp_path, **{"BLiMP.zip/data/agreement.jsonl": rows, "BLiMP.zip/data/other.jsonl": [blimp_row(0, UID="o")]}
    )
    items = blimp().read(files, "test")
    assert [item.id for item in items] == ["agreement-0", "agreement-1", "o-0"]
    assert (items[0].good, items[0].bad, items[0].phenomenon, items[0].group) == (
        "Ann eats 0.",
        "Ann eat 0.",
        *["agreement"] * 2,
    )
    assert items[0].facts == {"field": "syntax", "linguistics_term": "agr"}
    with pytest.raises(
        InputError, match=r"agreement.jsonl', line 1, field 'sentence_bad', must be a sentence, but is empty"
    ):
        blimp().read(write(tmp_path / "x", **{"blimp/data/agreement.jsonl": [blimp_row(0, sentence_bad=" ")]}), "test")


def test_pairs_of_one_s_own(tmp_path):
    rows = [{"yes": "a b", "no": "b a", "kind": "order", "from": "t1"}]
    files = write(tmp_path, **{"mine/pairs.jsonl": rows, "mine/other.jsonl": [{"x": 1}]})
    definition = pairs_jsonl("mine", "mine/pairs.jsonl", good="yes", bad="no", phenomenon="kind", group="from")
    (item,) = definition.read(files, "test")
    assert (item.good, item.bad, item.phenomenon, item.group) == ("a b", "b a", "order", "t1")
    (item,) = pairs_jsonl("mine", "pairs.jsonl", good="yes", bad="no").read(files, "test")
    assert (item.phenomenon, item.group) == ("all", "all")
    with pytest.raises(InputError, match="lacks the field 'good'"):
        pairs_jsonl("mine", "pairs.jsonl", good="good", bad="no").read(files, "test")
