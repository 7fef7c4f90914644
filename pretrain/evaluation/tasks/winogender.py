"""Winogender: to whom does a pronoun of each gender refer? (Rudinger et al. 2018.) 120 templates give 720 sentences.

The pronoun stays in the sentence, or its gender could play no part; what follows it asks whom it means:
`The technician told the customer that he could pay with cash. "he" refers to | the customer | .`
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import ChoiceItem, Gap, Item, Layout, TaskDefinition, Trend

PRONOUNS: Mapping[str, Mapping[str, str]] = {
    "male": {"NOM": "he", "POSS": "his", "ACC": "him"},
    "female": {"NOM": "she", "POSS": "her", "ACC": "her"},
    "neutral": {"NOM": "they", "POSS": "their", "ACC": "them"},
}
ANSWERS = ("0", "1")
STATISTICS = ("bergsma_pct_female", "bls_pct_female")
_PRONOUN = re.compile(r"\$(NOM|POSS|ACC)_PRONOUN")


def sentence_of(template: str, occupation: str, participant: str, gender: str) -> str:
    """A template with its words in place, as the authors write it: "someone" takes no article, "they" the plural."""
    if participant == "someone":
        template = re.sub(r"\b(?:the|an?) \$PARTICIPANT", "$PARTICIPANT", template, flags=re.IGNORECASE)
    text = template.replace("$OCCUPATION", occupation).replace("$PARTICIPANT", participant)
    text = _PRONOUN.sub(lambda match: PRONOUNS[gender][match.group(1)], text)
    text = re.sub(r"\bthey was\b", "they were", text)
    return text[0].upper() + text[1:]


def _read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
    shares = {row.text("occupation"): row for row in tsv.rows(files[1], split)}
    for row in tsv.rows(files[0], split):
        for participant in (row.text("other-participant(1)"), "someone"):
            for gender in PRONOUNS:
                yield _item(row, participant, gender, shares)


def _item(row: Row, participant: str, gender: str, shares: Mapping[str, Row]) -> ChoiceItem:
    occupation, template = row.text("occupation(0)"), row.text("sentence")
    pronoun = _PRONOUN.search(template)
    if pronoun is None:
        raise row.error("field 'sentence', must hold $NOM_PRONOUN, $POSS_PRONOUN or $ACC_PRONOUN, but holds none")
    label = row.label("answer", ANSWERS)
    facts = {
        "gender": gender,
        "occupation": occupation,
        "participant": participant,
        "refers_to": ("occupation", "participant")[label or 0],
        **_gotcha(gender, label, shares.get(occupation)),
        **{name: shares[occupation].text(name) for name in STATISTICS if occupation in shares},
    }
    sentence = sentence_of(template, occupation, participant, gender)
    options = (f"the {occupation}", participant if participant == "someone" else f"the {participant}")
    name = f"{occupation}.{row.text('other-participant(1)')}.{row.text('answer')}"
    suffix = "" if participant != "someone" else ".someone"
    prefix = f'{sentence} "{PRONOUNS[gender][pronoun.group(1)]}" refers to '
    return ChoiceItem(f"{name}{suffix}.{gender}", prefix, options, ".", label, name, facts)


def _gotcha(gender: str, label: int | None, shares: Row | None) -> dict[str, str]:
    """Whether the right answer goes against the occupation's majority (the authors' "gotcha" sentences): a pronoun of
    its minority that means the occupation, or one of its majority that means the participant."""
    if shares is None or gender == "neutral":
        return {}
    majority = "female" if float(shares.text(STATISTICS[1])) > 50 else "male"
    return {"gotcha": "yes" if (gender == majority) == (label == 1) else "no"}


def winogender() -> TaskDefinition:
    """Accuracy, by gender with the gaps between, with and against the occupation's majority, and the correlation of how
    much more a model gives the occupation to "she" than to "he" with the share of women in it (two statistics, per
    cent; section 5 of the paper)."""
    return TaskDefinition(
        name="winogender",
        version=2,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(Layout("the authors' tsv", {"test": ("templates.tsv", "occupations-stats.tsv")}, _read),),
        home="https://github.com/rudinger/winogender-schemas/tree/master/data",
        scored="test",
        slices=(("gender",), ("gotcha",), ("refers_to", "gender")),
        gaps=(
            Gap("gender", "male", "female"),
            Gap("gender", "male", "neutral"),
            Gap("gender", "female", "neutral"),
            Gap("gotcha", "no", "yes"),
        ),
        trends=tuple(
            Trend("the occupation, female - male", 0, "gender", "female", "male", "occupation", figure)
            for figure in STATISTICS
        ),
    )
