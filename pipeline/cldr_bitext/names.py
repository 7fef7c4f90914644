"""The names that sentences speak of, by group, as CLDR's codes; and which of them the bitext may know.

A name stands in the lists below if its English and German forms need no article, are singular where they are countries,
and have no bracket, so that a frame around it is good German whichever it is. Must not import babel.
"""

import math
import random
from collections.abc import Mapping

Names = Mapping[str, tuple[str, ...]]
"""Group -> codes."""

COUNTRIES = """
AL DZ AO AR AM AU AT AZ BD BY BE BO BW BR BG BI KH CM CA CL CN CO HR CU CY CZ DK DJ EC EG ER EE ET FJ FI FR GA GE DE GH
GR GT GN GY HT HU IS IN ID IE IL IT JM JP JO KZ KE KW KG LA LV LR LY LT LU MG MY ML MT MR MX ME MA MZ NA NP NZ NI NG MK
NO OM PK PA PY PE PL PT QA RO RU RW SA SN RS SG SI SO ZA KR ES LK SR SE SY TJ TZ TH TG TN TM UG UY UZ VE VN ZM ZW
"""
LANGUAGES = """
sq am ar hy az eu be bn bs bg my ca hr cs da nl en eo et fi fr gl ka de el gu ha he hi hu is id ga it ja jv kk km ko ku
ky lo la lv lt lb mk ms mt mn ne no fa pl pt ro ru sm sa sr si sk sl so es su sw sv tg ta tt th bo tr tk uk ug uz vi cy
yi zu
"""
CURRENCIES = """
USD EUR GBP JPY CHF SEK NOK DKK PLN CZK HUF ISK CAD AUD NZD BRL MXN ARS CLP COP INR KRW RUB UAH TRY ZAR EGP MAD KES NGN
THB SGD IDR PHP VND PKR
"""
SYMBOLS = "USD EUR GBP INR"

NAMES: Names = {
    "country": tuple(COUNTRIES.split()),
    "language": tuple(LANGUAGES.split()),
    "currency": tuple(CURRENCIES.split()),
    "month": tuple(str(month) for month in range(1, 13)),
    "length": ("kilometer", "meter", "centimeter", "millimeter", "mile", "yard", "foot", "inch", "nautical-mile"),
    "mass": ("tonne", "kilogram", "gram", "milligram", "pound", "ounce"),
    "area": ("hectare", "acre", "square-kilometer", "square-meter", "square-mile", "square-foot"),
    "volume": ("liter", "milliliter", "hectoliter", "gallon", "cubic-meter", "pint", "barrel", "cubic-foot"),
    "temperature": ("celsius", "fahrenheit", "kelvin"),
    "storage": ("byte", "kilobyte", "megabyte", "gigabyte", "terabyte", "petabyte", "megabit", "gigabit"),
    "power": ("watt", "kilowatt", "megawatt", "gigawatt", "milliwatt", "horsepower"),
    "energy": ("kilowatt-hour", "joule", "kilojoule", "calorie", "kilocalorie"),
    "speed": (
        "kilometer/hour",
        "mile/hour",
        "meter/second",
        "foot/second",
        "meter/minute",
        "kilometer/second",
        "kilometer/day",
    ),
    "time_unit": ("second", "minute", "hour", "day", "week", "month", "year"),
    "symbol": tuple(SYMBOLS.split()),
}
"""All there are. A compound unit is written `numerator/denominator`."""

NEVER_HELD_OUT = frozenset({"symbol"})


def names_of_bitext(names: Names, share: float, seed: int) -> Names:
    """The names that may stand in the bitext: a seeded draw from each group, in the group's own order.

    Args:
        names: all names.
        share: of each group, rounded up, so that no group is without a name. Groups of NEVER_HELD_OUT are kept whole.
        seed: of the draw; each group has a stream of its own, so that a name more in one leaves the others as they are.
    """
    chosen = {}
    for group, codes in names.items():
        size = len(codes) if group in NEVER_HELD_OUT else math.ceil(share * len(codes))
        kept = set(random.Random(f"names/{group}/{seed}").sample(codes, size))
        chosen[group] = tuple(code for code in codes if code in kept)
    return chosen


def name_key(group: str, code: str) -> str:
    """How one name is written where names of all groups stand together: `country/FR`."""
    return f"{group}/{code}"


def keys_of(names: Names) -> frozenset[str]:
    """The keys of all names."""
    return frozenset(name_key(group, code) for group, codes in names.items() for code in codes)


def names_among(names: Names, keys: frozenset[str]) -> Names:
    """The names whose keys are among `keys`; a group of which none is there stays, empty."""
    return {group: tuple(code for code in codes if name_key(group, code) in keys) for group, codes in names.items()}
