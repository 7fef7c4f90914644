"""The Chinese grammar: signs, classifiers, and words that would make a bad sentence good."""

import itertools
import re

from pretrain.evaluation.challenge.chinese import CHINESE
from pretrain.evaluation.challenge.templates import CONTRAST

CLASSIFIERS = {"volume": "本", "sheet": "张", "vehicle": "辆", "animal": "只", "garment": "件", "strip": "条"}


def words(kind: str, form: str = "") -> set[str]:
    return {word[form] for word in CHINESE.words[kind]}


def test_each_noun_has_one_classifier_and_stands_beside_it():
    for first, second in itertools.combinations(CLASSIFIERS, 2):
        assert words(first).isdisjoint(words(second)), (first, second)
    for template in (template for template in CHINESE.templates if template.phenomenon == "classifier"):
        for pattern in template.patterns:
            (kind,) = set(re.findall(r"\{(\w+)\}", pattern)) & set(CLASSIFIERS)
            good, bad = CONTRAST.search(pattern).groups()
            assert good == CLASSIFIERS[kind] != bad


def test_a_vehicle_and_an_animal_are_known_by_their_classifier():
    assert {item for item in words("vehicle") if "车" not in item} == {"大巴"}
    assert "狗" not in words("animal") and "鱼" not in words("animal")  # 条 and 只 both count them


def test_patterns_have_chinese_signs_and_words_without_spaces_in_them():
    for template in CHINESE.templates:
        for pattern in template.patterns:
            assert not re.search(r"[,.?!;:]", re.sub(r"\{[^}]*\}", "", pattern)), pattern
    for kind, found in CHINESE.words.items():
        assert all(re.fullmatch(r"[\u4e00-\u9fff]+", form) for word in found for form in word.values()), kind


def test_a_verb_with_its_object_or_result_is_their_sum():
    for kind, second in (("verb_object", "object"), ("achieve", "result")):
        assert all(word["whole"] == word["verb"] + word[second] for word in CHINESE.words[kind])


def test_what_takes_time_takes_no_object():
    transitive = {"学习", "讨论", "研究", "复习", "准备", "观察", "服务", "训练"}
    assert words("last").isdisjoint(transitive)


def test_points_and_lengths_of_time_differ():
    assert words("time").isdisjoint(words("span"))
    assert all(re.fullmatch(r"[一二三四五六七八九十两几](天|个星期|个月)", span) for span in words("span"))


def test_in_order_phenomena_each_twin_moves_what_the_other_moves_back():
    for template in CHINESE.templates:
        if template.phenomenon not in {"place_position", "time_position", "relative_clause"}:
            continue
        (good, bad), (good2, bad2) = (CONTRAST.search(pattern).groups() for pattern in template.patterns)
        assert sorted(good.split()) == sorted(bad.split()) and sorted(good2.split()) == sorted(bad2.split())
        slot = {"place_position": "{place}", "relative_clause": "{thing}", "time_position": "{last}"}[
            template.phenomenon
        ]
        places = [text.split().index(slot) for text in (good, bad, good2, bad2)]
        assert (places[0] < places[1]) != (places[2] < places[3]), template.name
