"""What babel writes, checked by hand, and that draws are what the sizes say."""

import random
import re

import pytest

from pipeline.cldr_bitext.names import NAMES
from pipeline.cldr_bitext.slots import AMOUNTS, COUNTS, KINDS, MEASURES, NUMBERS, PERCENTS, SMALL, TEMPERATURES, write

ONE_OF_EACH = {
    "country": ("BR",),
    "language": ("fr",),
    "countries": ("BR", "FR", "JP"),
    "languages": ("cy", "fr", "th"),
    "length": ("1250.5", "mile"),
    "speed": ("90", "kilometer/hour"),
    "temperature": ("12.5", "celsius"),
    "duration": ("3", "month"),
    "past": ("3", "day"),
    "future": ("2", "year"),
    "amount": ("1250", "SEK"),
    "price": ("1250.95", "USD"),
    "number": ("1250",),
    "count": ("2",),
    "percent": ("12.5",),
    "time": ("15:45",),
    "date": ("2023-07-04",),
    "full_date": ("2023-07-04",),
    "short_date": ("2023-07-04",),
    "day": ("1991-12-31",),
    "month": ("2023-07-01",),
}
WRITTEN = {
    "country": ("Brazil", "Brasilien", "巴西"),
    "language": ("French", "Französisch", "法语"),
    "countries": ("Brazil, France, and Japan", "Brasilien, Frankreich und Japan", "巴西、法国和日本"),
    "languages": ("Welsh, French, and Thai", "Walisisch, Französisch und Thailändisch", "威尔士语、法语和泰语"),
    "length": ("1,250.5 miles", "1.250,5 Meilen", "1,250.5英里"),
    "speed": ("90 kilometers per hour", "90 Kilometer pro Stunde", "每小时90公里"),
    "temperature": ("12.5 degrees Celsius", "12,5 Grad Celsius", "12.5摄氏度"),
    "duration": ("3 months", "3 Monate", "3个月"),
    "past": ("3 days ago", "vor 3 Tagen", "3天前"),
    "future": ("in 2 years", "in 2 Jahren", "2年后"),
    "amount": ("1,250 Swedish kronor", "1.250 Schwedische Kronen", "1,250瑞典克朗"),
    "price": ("$1,250.95", "1.250,95 $", "US$1,250.95"),
    "number": ("1,250", "1.250", "1,250"),
    "count": ("2", "2", "2"),
    "percent": ("12.5%", "12,5 %", "12.5%"),
    "time": ("3:45 PM", "15:45", "15:45"),
    "date": ("July 4, 2023", "4. Juli 2023", "2023年7月4日"),
    "full_date": ("Tuesday, July 4, 2023", "Dienstag, 4. Juli 2023", "2023年7月4日星期二"),
    "short_date": ("7/4/23", "04.07.23", "2023/7/4"),
    "day": ("December 31", "31. Dezember", "12月31日"),
    "month": ("July 2023", "Juli 2023", "2023年7月"),
}


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_values_are_written_as_each_language_writes_them(kind):
    assert tuple(write(kind, ONE_OF_EACH[kind], language) for language in ("en", "de", "zh")) == WRITTEN[kind]


@pytest.mark.parametrize(("number", "unit"), [("30", "month"), ("30", "second"), ("28", "day"), ("30", "week")])
def test_a_relative_time_keeps_the_unit_it_was_drawn_with(number, unit):
    german = {"month": "Monaten", "second": "Sekunden", "day": "Tagen", "week": "Wochen"}[unit]
    assert write("past", (number, unit), "en") == f"{number} {unit}s ago"
    assert write("future", (number, unit), "de") == f"in {number} {german}"


def test_every_name_has_a_form_in_every_language_that_needs_no_article_or_bracket():
    for group, kind in (("country", "country"), ("language", "language")):
        for code in NAMES[group]:
            english, german, chinese = (write(kind, (code,), language) for language in ("en", "de", "zh"))
            assert re.fullmatch(r"[A-Z][\w-]+( [A-Z][\w-]+)*", english), english
            assert re.fullmatch(r"[A-ZÄÖÜ][\w-]+( [A-Z][\w-]+)*", german), german
            assert re.fullmatch("[\u4e00-\u9fff]+", chinese), chinese
    for kind, found in KINDS.items():
        group = getattr(found, "group", "")
        if kind in WRITTEN and group in ("country", "language"):
            continue
        for code in NAMES.get(group, ()):
            texts = [write(kind, (found.numbers[0], code), language) for language in ("en", "de", "zh")]
            assert all(re.search(r"\d", text) and not re.search("[\u00a0\u202f{}]", text) for text in texts)
            assert kind == "price" or not re.search(
                "[A-Za-z/]", texts[2].replace("/", "") if kind == "speed" else texts[2]
            ), texts


def test_names_of_a_group_differ_from_each_other_in_every_language():
    for kind in ("country", "language"):
        for language in ("en", "de", "zh"):
            forms = [write(kind, (code,), language) for code in NAMES[kind]]
            assert len(set(forms)) == len(forms)
    for kind in ("length", "mass", "area", "volume", "storage", "power", "energy", "speed", "amount", "duration"):
        for language in ("en", "de", "zh"):
            forms = [write(kind, ("5", code), language) for code in NAMES[KINDS[kind].group]]
            assert len(set(forms)) == len(forms), (kind, language)


def test_no_number_is_one_for_which_nouns_have_another_form():
    for numbers in (AMOUNTS, COUNTS, MEASURES, NUMBERS, PERCENTS, SMALL, TEMPERATURES):
        assert len(set(numbers)) == len(numbers)
        assert all(float(number) >= 2 for number in numbers)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_draws_are_among_as_many_values_as_the_size_says_and_name_what_may_be_named(kind):
    names = {group: codes[:4] for group, codes in NAMES.items()}
    generator = random.Random(0)
    size = KINDS[kind].size(names)
    values = {KINDS[kind].draw(names, generator) for _ in range(20 * min(size, 500))}
    assert len(values) == size if size <= 500 else 500 < len(values) <= size
    allowed = {f"{group}/{code}" for group, codes in names.items() for code in codes}
    assert {key for value in values for key in KINDS[kind].names(value)} <= allowed


def test_sizes_by_hand():
    names = {group: codes[:4] for group, codes in NAMES.items()}
    assert KINDS["country"].size(names) == 4
    assert KINDS["languages"].size(names) == 4 * 3 * 2
    assert KINDS["languages"].size({**names, "language": ("fr", "de")}) == 0
    assert KINDS["day"].size(names) == 31 + 28 + 31 + 30
    assert KINDS["month"].size(names) == 40 * 4
    assert KINDS["short_date"].size(names) == 40 * 365 + 10  # ten leap years from 1990 to 2029
    assert KINDS["time"].size(names) == 288
    assert KINDS["past"].size(names) == 4 * 29


def test_a_month_that_is_a_number_is_no_name():
    assert KINDS["short_date"].names(("2023-07-04",)) == ()
    assert KINDS["date"].names(("2023-07-04",)) == ("month/7",)
    assert KINDS["amount"].names(("5", "SEK")) == ("currency/SEK",)
    assert KINDS["countries"].names(("BR", "FR", "JP")) == ("country/BR", "country/FR", "country/JP")
