"""The kinds of slots: which values each holds, how many there are, and how each language writes one.

A value is plain data without a language, such as ("12.5", "kilometer"): babel writes it from its CLDR data. Draws are
uniform over a kind's values, so that the number of values is what bounds the number of sentences.

Left out is what would make a sentence wrong: the number 1 (another form of noun and article) and CLDR's no-break
spaces, which become plain ones. Must not know any frame.
"""

import calendar
import datetime
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time, format_timedelta
from babel.lists import format_list
from babel.numbers import format_currency, format_decimal, format_percent
from babel.units import format_compound_unit, format_unit

from pipeline.cldr_bitext.names import Names, name_key

Value = tuple[str, ...]
LOCALES = {"en": "en_US", "de": "de_DE", "zh": "zh_Hans_CN"}
NO_BREAK_SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009", " "))
LIST_LENGTH = 3
YEARS = range(1990, 2030)
SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
    "month": 30 * 86400,
    "year": 365 * 86400,
}
"""The lengths that babel's format_timedelta counts in."""
NEVER = 1e12  # a threshold at which format_timedelta never goes on to a larger unit

SMALL = tuple(str(number) for number in range(2, 31))
COUNTS = tuple(str(number) for number in range(2, 100))
THOUSANDS = tuple(str(number) for number in range(1000, 10_000, 50))
TENTHS = tuple(f"{number // 10}.{number % 10}" for number in range(21, 200) if number % 10)
MEASURES = (
    *(str(number) for number in range(2, 200)),
    *TENTHS,
    *THOUSANDS,
    *(f"{number}.5" for number in range(1000, 10_000, 250)),
)
TEMPERATURES = (*(str(number) for number in range(2, 120)), *TENTHS)
AMOUNTS = (*(str(number) for number in range(5, 400)), *THOUSANDS)
PRICES = tuple(
    f"{whole}.{cents}" for whole in (*range(3, 100), *range(1000, 5000, 250)) for cents in ("25", "50", "95", "99")
)
NUMBERS = (*(str(number) for number in range(20, 400)), *(str(number) for number in range(1000, 10_000, 10)))
PERCENTS = (*TENTHS, *(str(number) for number in range(2, 100)))
TIMES = tuple(f"{hour:02d}:{minute:02d}" for hour in range(24) for minute in range(0, 60, 5))


@functools.cache
def locale(language: str) -> Locale:
    """babel's locale of a language of LOCALES."""
    return Locale.parse(LOCALES[language])


class Kind(Protocol):
    """What one kind of slot holds."""

    def size(self, names: Names) -> int:
        """How many values there are with these names."""

    def draw(self, names: Names, generator: random.Random) -> Value:
        """One of these values, each as likely."""

    def names(self, value: Value) -> tuple[str, ...]:
        """The keys of the names that a value speaks of (see `names.name_key`)."""

    def write(self, value: Value, language: str) -> str:
        """The value as the language writes it."""


@dataclass(frozen=True)
class NameKind:
    """A name by itself; the value is (code,)."""

    group: str
    text: Callable[[str, Locale], str]

    def size(self, names: Names) -> int:
        """See Kind."""
        return len(names[self.group])

    def draw(self, names: Names, generator: random.Random) -> Value:
        """See Kind."""
        return (generator.choice(names[self.group]),)

    def names(self, value: Value) -> tuple[str, ...]:
        """See Kind."""
        return (name_key(self.group, value[0]),)

    def write(self, value: Value, language: str) -> str:
        """See Kind."""
        return self.text(value[0], locale(language))


@dataclass(frozen=True)
class ListKind:
    """LIST_LENGTH different names of one group in a list with "and"; the value is their codes, in order."""

    group: str
    text: Callable[[str, Locale], str]

    def size(self, names: Names) -> int:
        """See Kind."""
        number = len(names[self.group])
        return number * (number - 1) * (number - 2) if number >= LIST_LENGTH else 0

    def draw(self, names: Names, generator: random.Random) -> Value:
        """See Kind."""
        return tuple(generator.sample(names[self.group], LIST_LENGTH))

    def names(self, value: Value) -> tuple[str, ...]:
        """See Kind."""
        return tuple(name_key(self.group, code) for code in value)

    def write(self, value: Value, language: str) -> str:
        """See Kind."""
        where = locale(language)
        return format_list([self.text(code, where) for code in value], locale=where)


@dataclass(frozen=True)
class NumberKind:
    """A number by itself; the value is (number,)."""

    numbers: tuple[str, ...]
    text: Callable[[str, Locale], str]

    def size(self, names: Names) -> int:
        """See Kind."""
        return len(self.numbers)

    def draw(self, names: Names, generator: random.Random) -> Value:
        """See Kind."""
        return (generator.choice(self.numbers),)

    def names(self, value: Value) -> tuple[str, ...]:
        """See Kind."""
        return ()

    def write(self, value: Value, language: str) -> str:
        """See Kind."""
        return self.text(value[0], locale(language))


@dataclass(frozen=True)
class MeasureKind:
    """A number of something that has a name: a unit, a currency; the value is (number, code)."""

    group: str
    numbers: tuple[str, ...]
    text: Callable[[str, str, Locale], str]

    def size(self, names: Names) -> int:
        """See Kind."""
        return len(self.numbers) * len(names[self.group])

    def draw(self, names: Names, generator: random.Random) -> Value:
        """See Kind."""
        return generator.choice(self.numbers), generator.choice(names[self.group])

    def names(self, value: Value) -> tuple[str, ...]:
        """See Kind."""
        return (name_key(self.group, value[1]),)

    def write(self, value: Value, language: str) -> str:
        """See Kind."""
        number, code = value
        return self.text(number, code, locale(language))


@dataclass(frozen=True)
class DateKind:
    """A day of YEARS; the value is the ISO date, cut to what the text says of it.

    Attributes:
        text: writes it.
        parts: which of year, month and day the text says: "ymd", "md" or "ym".
        named: whether the month stands there by name (a bare number is no name).
    """

    text: Callable[[datetime.date, Locale], str]
    parts: str = "ymd"
    named: bool = True

    def _days(self, names: Names) -> tuple[Value, ...]:
        months = names["month"] if self.named else tuple(str(month) for month in range(1, 13))
        return _dates(self.parts, months)

    def size(self, names: Names) -> int:
        """See Kind."""
        return len(self._days(names))

    def draw(self, names: Names, generator: random.Random) -> Value:
        """See Kind."""
        return generator.choice(self._days(names))

    def names(self, value: Value) -> tuple[str, ...]:
        """See Kind."""
        return (name_key("month", str(_date(value).month)),) if self.named else ()

    def write(self, value: Value, language: str) -> str:
        """See Kind."""
        return self.text(_date(value), locale(language))


@functools.cache
def _dates(parts: str, months: tuple[str, ...]) -> tuple[Value, ...]:
    """The dates in those months, of one year (none that leaps) where the text does not say which, else the first."""
    years = YEARS if "y" in parts else range(YEARS.start + 1, YEARS.start + 2)
    return tuple(
        (datetime.date(year, int(month), day).isoformat(),)
        for year in years
        for month in months
        for day in (range(1, calendar.monthrange(year, int(month))[1] + 1) if "d" in parts else (1,))
    )


def _date(value: Value) -> datetime.date:
    return datetime.date.fromisoformat(value[0])


def _country(code: str, where: Locale) -> str:
    return str(where.territories[code])


def _language(code: str, where: Locale) -> str:
    return str(where.languages[code])


def _unit(number: str, unit: str, where: Locale) -> str:
    return format_unit(Decimal(number), unit, length="long", locale=where)


def _compound_unit(number: str, unit: str, where: Locale) -> str:
    numerator, denominator = unit.split("/")
    text = format_compound_unit(Decimal(number), numerator, denominator_unit=denominator, length="long", locale=where)
    assert text is not None
    return text


def _duration(number: str, unit: str, where: Locale, sign: int = 1, direction: bool = False) -> str:
    seconds = sign * int(number) * SECONDS[unit]
    return format_timedelta(seconds, granularity=unit, threshold=NEVER, add_direction=direction, locale=where)  # type: ignore[arg-type]


def _amount(number: str, currency: str, where: Locale) -> str:
    return format_currency(
        Decimal(number), currency, format="#,##0", format_type="name", currency_digits=False, locale=where
    )


KINDS: dict[str, Kind] = {
    "country": NameKind("country", _country),
    "language": NameKind("language", _language),
    "countries": ListKind("country", _country),
    "languages": ListKind("language", _language),
    **{
        group: MeasureKind(group, MEASURES, _unit)
        for group in ("length", "mass", "area", "volume", "storage", "power", "energy")
    },
    "temperature": MeasureKind("temperature", TEMPERATURES, _unit),
    "speed": MeasureKind("speed", MEASURES, _compound_unit),
    "duration": MeasureKind("time_unit", SMALL, _duration),
    "past": MeasureKind("time_unit", SMALL, functools.partial(_duration, sign=-1, direction=True)),
    "future": MeasureKind("time_unit", SMALL, functools.partial(_duration, direction=True)),
    "amount": MeasureKind("currency", AMOUNTS, _amount),
    "price": MeasureKind(
        "symbol", PRICES, lambda number, currency, where: format_currency(Decimal(number), currency, locale=where)
    ),
    "number": NumberKind(NUMBERS, lambda number, where: format_decimal(Decimal(number), locale=where)),
    "count": NumberKind(COUNTS, lambda number, where: format_decimal(Decimal(number), locale=where)),
    "percent": NumberKind(
        PERCENTS,
        lambda number, where: format_percent(Decimal(number) / 100, locale=where, decimal_quantization=False),
    ),
    "time": NumberKind(
        TIMES, lambda time, where: format_time(datetime.time.fromisoformat(time), "short", locale=where)
    ),
    "date": DateKind(lambda date, where: format_date(date, "long", locale=where)),
    "full_date": DateKind(lambda date, where: format_date(date, "full", locale=where)),
    "short_date": DateKind(lambda date, where: format_date(date, "short", locale=where), named=False),
    "day": DateKind(lambda date, where: format_skeleton("MMMMd", date, locale=where), parts="md"),
    "month": DateKind(lambda date, where: format_skeleton("yMMMM", date, locale=where), parts="ym"),
}
"""Every kind of slot, by the name that frames use."""


@functools.lru_cache(maxsize=1 << 17)
def write(kind: str, value: Value, language: str) -> str:
    """A value as a language writes it, with plain spaces. Kept, for the same values return in many sentences."""
    return KINDS[kind].write(value, language).translate(NO_BREAK_SPACES)
