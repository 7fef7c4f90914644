"""The small language that sentence frames are written in. Must import nothing of the project.

    Frame("flight", en="The flight to {country} leaves at {time}.", de="Der Flug nach {country} startet um {time} Uhr.")

`{kind}` is filled with a value of that kind, written as the language writes it; `{kind2}` is a second, different value
of the same kind. A slot may stand anywhere in each language, but all languages have the same slots.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SLOT = re.compile(r"\{([a-z_]+)(\d?)\}")


@dataclass(frozen=True)
class Frame:
    """One sentence with slots, in every language.

    Attributes:
        name: unique among the frames.
        texts: language -> the sentence.
    """

    name: str
    texts: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse a frame whose languages do not have the same slots, each once."""
        slots = {language: sorted(match[0] for match in SLOT.finditer(text)) for language, text in self.texts.items()}
        expected = next(iter(slots.values()))
        for language, found in slots.items():
            if found != expected or len(set(found)) != len(found):
                raise ValueError(
                    f"frame '{self.name}' must have the slots {expected} once each, but {language} {found}"
                )

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots as they are written (`country`, `country2`), sorted by name; the order of a frame's values."""
        return tuple(sorted(match[1] + match[2] for match in SLOT.finditer(next(iter(self.texts.values())))))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each slot, in the order of `slots`."""
        return tuple(slot.rstrip("0123456789") for slot in self.slots)

    def fill(self, language: str, words: Mapping[str, str]) -> str:
        """The sentence in one language, its first letter a capital.

        Args:
            language: one of `texts`.
            words: slot -> what stands there in that language.

        Raises:
            KeyError: a slot without words.
        """
        text = SLOT.sub(lambda match: words[match[1] + match[2]], self.texts[language])
        return text[0].upper() + text[1:]


def frame(name: str, **texts: str) -> Frame:
    """A frame, written as `frame(name, en=..., de=..., zh=...)`."""
    return Frame(name, texts)
