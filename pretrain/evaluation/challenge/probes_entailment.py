"""A check list for heads that judge whether a text entails a sentence. Must not import torch.

Its labels are two; a head of three folds neutral and contradiction together.
"""

from pretrain.evaluation.challenge.probes import Probe, Probes, contracted, plain, templates, typo
from pretrain.evaluation.challenge.probes_words import SHARED

LABELS = ("entailment", "not_entailment")
FOLLOWS, OPEN = (LABELS[0],), (LABELS[1],)


def _verbs(*words: str) -> tuple[dict[str, str], ...]:
    return tuple({"past": word, "base": base} for word, _, base in (entry.partition("/") for entry in words))


WORDS = {
    **SHARED,
    # Past and participle alike, of what one person does to another.
    "did": _verbs(
        *("praised/praise", "thanked/thank", "followed/follow", "helped/help", "blamed/blame", "called/call"),
        *("visited/visit", "invited/invite", "watched/watch", "trusted/trust", "ignored/ignore", "answered/answer"),
    ),
    # What someone does alone.
    "acted": _verbs(
        *("slept/sleep", "laughed/laugh", "waited/wait", "arrived/arrive", "smiled/smile", "shouted/shout"),
        *("danced/dance", "coughed/cough", "sneezed/sneeze", "stumbled/stumble"),
    ),
    "state": plain("tired, hungry, rich, happy, ill, angry, tall, young, famous, busy, afraid, lonely, proud, thirsty"),
    "colour": plain("red, blue, green, yellow, black, white, brown, grey"),
    "thing": plain("car, coat, chair, table, bag, hat, lamp, boat, bicycle, house, bowl, carpet, door, guitar"),
}

TESTS = (
    Probe(
        "the same sentence",
        "logic",
        "MFT",
        templates(
            "The {job} {did.past} the {job2}. | The {job} {did.past} the {job2}.",
            "{name} is {state}. | {name} is {state}.",
            "{name} bought {colour.a} {thing} in {place}. | {name} bought {colour.a} {thing} in {place}.",
            "The {job} {acted.past}. | The {job} {acted.past}.",
        ),
        FOLLOWS,
    ),
    Probe(
        "its negation",
        "negation",
        "MFT",
        templates(
            "The {job} is {state}. | The {job} is not {state}.",
            "The {job} {did.past} the {job2}. | The {job} did not {did.base} the {job2}.",
            "{name} did not {did.base} {name2}. | {name} {did.past} {name2}.",
            "{name} never {acted.past}. | {name} {acted.past}.",
        ),
        OPEN,
    ),
    Probe(
        "active and passive",
        "roles",
        "MFT",
        templates(
            "The {job} {did.past} the {job2}. | The {job2} was {did.past} by the {job}.",
            "The {job} was {did.past} by the {job2}. | The {job2} {did.past} the {job}.",
            "{name} {did.past} {name2}. | {name2} was {did.past} by {name}.",
            "{name} was {did.past} by {name2}. | {name2} {did.past} {name}.",
        ),
        FOLLOWS,
    ),
    Probe(
        "roles exchanged",
        "roles",
        "MFT",
        templates(
            "The {job} {did.past} the {job2}. | The {job2} {did.past} the {job}.",
            "The {job} was {did.past} by the {job2}. | The {job} {did.past} the {job2}.",
            "{name} {did.past} {name2}. | {name2} {did.past} {name}.",
            "{name} was {did.past} by {name2}. | {name2} was {did.past} by {name}.",
        ),
        OPEN,
    ),
    Probe(
        "and",
        "logic",
        "MFT",
        templates(
            "The {job} and the {job2} {acted.past}. | The {job} {acted.past}.",
            "The {job} and the {job2} {acted.past}. | The {job2} {acted.past}.",
            "{name} and {name2} are {state}. | {name2} is {state}.",
            "{name} {acted.past} and {acted2.past}. | {name} {acted2.past}.",
        ),
        FOLLOWS,
    ),
    Probe(
        "or",
        "logic",
        "MFT",
        templates(
            "The {job} or the {job2} {acted.past}. | The {job} {acted.past}.",
            "The {job} or the {job2} {acted.past}. | The {job2} {acted.past}.",
            "Either {name} or {name2} is {state}. | {name2} is {state}.",
            "{name} {acted.past} or {acted2.past}. | {name} {acted2.past}.",
        ),
        OPEN,
    ),
    Probe(
        "before and after",
        "temporal order",
        "MFT",
        templates(
            "The {job} {acted.past} before the {job2} did. | The {job2} {acted.past} after the {job} did.",
            "{name} {acted.past} after {name2} did. | {name2} {acted.past} before {name} did.",
            "Before {name} {acted.past}, the {job} {acted2.past}. | {name} {acted.past} after the {job} {acted2.past}.",
            "After {name} {acted.past}, the {job} {acted2.past}. | {name} {acted.past} before the {job} {acted2.past}.",
        ),
        FOLLOWS,
    ),
    Probe(
        "the order turned round",
        "temporal order",
        "MFT",
        templates(
            "The {job} {acted.past} before the {job2} did. | The {job2} {acted.past} before the {job} did.",
            "{name} {acted.past} after {name2} did. | {name} {acted.past} before {name2} did.",
            "Before {name} {acted.past}, {name2} {acted2.past}. | {name} {acted.past} before {name2} {acted2.past}.",
            "After {name} {acted.past}, the {job} {acted2.past}. | {name} {acted.past}, and before that "
            "the {job} {acted2.past}.",
        ),
        OPEN,
    ),
    Probe(
        "words left out",
        "vocabulary",
        "MFT",
        templates(
            "{name} bought {colour.a} {thing}. | {name} bought a {thing}.",
            "The {state} {job} {acted.past}. | The {job} {acted.past}.",
            "{name} {acted.past} in {place}. | {name} {acted.past}.",
            "The {job} {did.past} the {job2} on {day}. | The {job} {did.past} the {job2}.",
        ),
        FOLLOWS,
    ),
    Probe(
        "words added",
        "vocabulary",
        "MFT",
        templates(
            "{name} bought a {thing}. | {name} bought {colour.a} {thing}.",
            "The {job} {acted.past}. | The {state} {job} {acted.past}.",
            "{name} {acted.past}. | {name} {acted.past} in {place}.",
            "The {job} {did.past} the {job2}. | The {job} {did.past} the {job2} on {day}.",
        ),
        OPEN,
    ),
    Probe(
        "names in both",
        "irrelevant change",
        "INV",
        templates(
            *(
                tuple(pattern.replace("NAME", f"{{name{number}}}") for number in ("", "2", "3"))
                for pattern in (
                    "NAME {did.past} the {job}. | The {job} was {did.past} by NAME.",
                    "NAME is {state}. | NAME is not {state}.",
                    "NAME bought a {thing}. | NAME bought {colour.a} {thing}.",
                    "NAME and the {job} {acted.past}. | NAME {acted.past}.",
                )
            )
        ),
    ),
    Probe(
        "places in both",
        "irrelevant change",
        "INV",
        templates(
            *(
                tuple(pattern.replace("PLACE", f"{{place{number}}}") for number in ("", "2", "3"))
                for pattern in (
                    "{name} {acted.past} in PLACE. | Someone {acted.past} in PLACE.",
                    "The {job} from PLACE is {state}. | The {job} from PLACE is not {state}.",
                    "In PLACE the {job} bought a {thing}. | The {job} bought {colour.a} {thing} in PLACE.",
                    "The {job} {did.past} {name} in PLACE. | {name} was {did.past} in PLACE.",
                )
            )
        ),
    ),
    Probe(
        "typing errors",
        "robustness",
        "INV",
        templates(
            "The {job} {did.past} the {job2} in {place}. | The {job2} was {did.past} by the {job}.",
            "The {job} and the {job2} {acted.past} on {day}. | The {job} {acted.past}.",
            "{name} bought {colour.a} {thing} in {place}. | {name} bought a {thing}.",
            "The {job} was {state} before {day}. | The {job} was never {state}.",
        ),
        change=typo,
    ),
    Probe(
        "contractions",
        "robustness",
        "INV",
        templates(
            "The {job} is not {state}. | The {job} is {state}.",
            "The {job} did not {did.base} the {job2}. | The {job} {did.past} the {job2}.",
            "{name} was not {state} on {day}. | On {day} {name} was {state}.",
            "{name} did not {acted.base} in {place}. | {name} {acted.past} in {place}.",
        ),
        change=contracted,
    ),
    Probe(
        "a negation in the second sentence",
        "negation",
        "DIR",
        templates(
            ("The {job} is {state}. | The {job} is {state}.", "The {job} is {state}. | The {job} is not {state}."),
            ("{name} {acted.past}. | {name} {acted.past}.", "{name} {acted.past}. | {name} did not {acted.base}."),
            (
                "The {job} {did.past} {name}. | The {job} {did.past} {name}.",
                "The {job} {did.past} {name}. | The {job} did not {did.base} {name}.",
            ),
            (
                "{name} is {state} and {state2}. | {name} is {state2}.",
                "{name} is {state} and {state2}. | {name} is not {state2}.",
            ),
        ),
        FOLLOWS,
        "down",
    ),
    Probe(
        "more said in the second sentence",
        "vocabulary",
        "DIR",
        templates(
            (
                "{name} bought a {thing}. | {name} bought a {thing}.",
                "{name} bought a {thing}. | {name} bought {colour.a} {thing}.",
            ),
            ("{name} {acted.past}. | {name} {acted.past}.", "{name} {acted.past}. | {name} {acted.past} in {place}."),
            (
                "The {job} {acted.past}. | The {job} {acted.past}.",
                "The {job} {acted.past}. | The {job} and the {job2} {acted.past}.",
            ),
            (
                "The {job} {did.past} {name}. | The {job} {did.past} {name}.",
                "The {job} {did.past} {name}. | The {job} {did.past} {name} and {name2}.",
            ),
        ),
        FOLLOWS,
        "down",
    ),
)

ENTAILMENT = Probes(version=1, words=WORDS, tests=TESTS)
