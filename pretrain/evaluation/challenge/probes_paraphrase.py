"""A check list for heads that judge whether two questions ask the same. Must not import torch.

Its labels are those of QQP; other heads of paraphrases fold theirs onto them.
"""

from pretrain.evaluation.challenge.probes import Probe, Probes, changed_places, contracted, plain, templates, typo
from pretrain.evaluation.challenge.probes_words import SHARED

LABELS = ("not_duplicate", "duplicate")
OTHER, SAME = (LABELS[0],), (LABELS[1],)


def _equal(*words: str) -> tuple[dict[str, str], ...]:
    """Words with another that says the same under `like`."""
    return tuple({"": word, "like": like} for word, _, like in (entry.partition("/") for entry in words))


WORDS = {
    **SHARED,
    "become": _equal(
        *("happy/glad", "rich/wealthy", "calm/relaxed", "famous/well known", "clever/smart", "brave/courageous"),
        *("healthy/fit", "thin/slim", "polite/courteous", "honest/truthful", "patient/forbearing", "strong/powerful"),
    ),
    "trait": plain("honest, patient, shy, cheerful, strict, generous, lazy, curious, modest, stubborn, reliable, kind"),
    "field": plain("French, chess, algebra, swimming, painting, cooking, Spanish, singing, history, physics, dancing"),
    "meal": plain("breakfast, lunch, dinner, a wedding, an exam, a long journey, a meeting, a race, an operation"),
    "more": plain("taller, older, richer, faster, stronger, younger, heavier, kinder, smarter, happier"),
    "sold": plain("a car, a house, a piano, a bicycle, a horse, a boat, a camera, a sofa, a violin, a tent"),
}

TESTS = (
    Probe(
        "the same question",
        "vocabulary",
        "MFT",
        templates(
            "How can I learn {field}? | How can I learn {field}?",
            "Is {name} {job.a}? | Is {name} {job.a}?",
            "Where can I buy {sold} in {place}? | Where can I buy {sold} in {place}?",
            "What should I do before {meal}? | What should I do before {meal}?",
        ),
        SAME,
    ),
    Probe(
        "words that mean the same",
        "vocabulary",
        "MFT",
        templates(
            "How can I become {become}? | How can I become {become.like}?",
            "How do I get {become} in {place}? | How do I get {become.like} in {place}?",
            "Why is {name} so {become}? | Why is {name} so {become.like}?",
            "Are people in {place} {become}? | Are people in {place} {become.like}?",
        ),
        SAME,
    ),
    Probe(
        "a word that narrows it",
        "vocabulary",
        "MFT",
        templates(
            "Is {name} {job.a}? | Is {name} a retired {job}?",
            "How can I learn {field}? | How can I learn {field} in {place}?",
            "Where can I buy {sold}? | Where can I buy {sold} on a {day}?",
            "What should I eat before {meal}? | What should {job.a} eat before {meal}?",
        ),
        OTHER,
    ),
    Probe(
        "negation",
        "negation",
        "MFT",
        templates(
            "How can I find {job.a} who is {trait}? | How can I find {job.a} who is not {trait}?",
            "Why is {name} {trait}? | Why is {name} not {trait}?",
            "What should I eat before {meal}? | What should I not eat before {meal}?",
            "Who wants to learn {field}? | Who does not want to learn {field}?",
        ),
        OTHER,
    ),
    Probe(
        "other people",
        "entities",
        "MFT",
        templates(
            "Is {name} {job.a}? | Is {name2} {job.a}?",
            "Why did {name} move to {place}? | Why did {name2} move to {place}?",
            "Who taught {name} {field}? | Who taught {name2} {field}?",
            "How old is {name}, the {job}? | How old is {name2}, the {job}?",
        ),
        OTHER,
    ),
    Probe(
        "other places",
        "entities",
        "MFT",
        templates(
            "How can I become {job.a} in {place}? | How can I become {job.a} in {place2}?",
            "Where can I buy {sold} in {place}? | Where can I buy {sold} in {place2}?",
            "Is it easy to learn {field} in {place}? | Is it easy to learn {field} in {place2}?",
            "Why did {name} move to {place}? | Why did {name} move to {place2}?",
        ),
        OTHER,
    ),
    Probe(
        "before and after",
        "temporal order",
        "MFT",
        templates(
            "What should I do before {meal}? | What should I do after {meal}?",
            "What did {name} learn before {field}? | What did {name} learn after {field}?",
            "What was {name} before becoming {job.a}? | What was {name} after becoming {job.a}?",
            "Should I sell {sold} before moving to {place}? | Should I sell {sold} after moving to {place}?",
        ),
        OTHER,
    ),
    Probe(
        "once and now",
        "temporal order",
        "MFT",
        templates(
            "Was {name} {job.a}? | Is {name} {job.a} now?",
            "Did {name} use to live in {place}? | Does {name} live in {place} now?",
            "What was it like to learn {field}? | What will it be like to learn {field}?",
            "Was {name} {trait} as a child? | Is {name} {trait} today?",
        ),
        OTHER,
    ),
    Probe(
        "who is first does not matter",
        "roles",
        "MFT",
        templates(
            "Are {name} and {name2} friends? | Are {name2} and {name} friends?",
            "Is {name} married to {name2}? | Is {name2} married to {name}?",
            "Did {name} and {name2} meet in {place}? | Did {name2} and {name} meet in {place}?",
            "What do the {job} and the {job2} have in common? | What do the {job2} and the {job} have in common?",
        ),
        SAME,
    ),
    Probe(
        "who is first matters",
        "roles",
        "MFT",
        templates(
            "Is {name} {more} than {name2}? | Is {name2} {more} than {name}?",
            "Did {name} teach {name2} {field}? | Did {name2} teach {name} {field}?",
            "Why does {name} trust {name2}? | Why does {name2} trust {name}?",
            "Did {name} sell {name2} {sold}? | Did {name2} sell {name} {sold}?",
        ),
        OTHER,
    ),
    Probe(
        "active and passive",
        "roles",
        "MFT",
        templates(
            "Did {name} sell {sold}? | Was {sold} sold by {name}?",
            "Who taught {name} {field}? | By whom was {name} taught {field}?",
            "Did the {job} invite {name}? | Was {name} invited by the {job}?",
            "Has {name} bought {sold}? | Has {sold} been bought by {name}?",
        ),
        SAME,
    ),
    Probe(
        "names in both",
        "irrelevant change",
        "INV",
        templates(
            *(
                tuple(pattern.replace("NAME", f"{{name{number}}}") for number in ("", "2", "3"))
                for pattern in (
                    "Why did NAME move to {place}? | What made NAME move to {place}?",
                    "Is NAME {job.a}? | Is NAME a retired {job}?",
                    "Who taught NAME {field}? | Did NAME teach {field}?",
                    "Why is NAME {trait}? | Why is NAME not {trait}?",
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
                    "How can I become {job.a} in PLACE? | What do I need to become {job.a} in PLACE?",
                    "Where can I buy {sold} in PLACE? | Where can I sell {sold} in PLACE?",
                    "Why did {name} move to PLACE? | When did {name} move to PLACE?",
                    "Is it easy to learn {field} in PLACE? | Is {field} easy to learn in PLACE?",
                )
            )
        ),
    ),
    Probe(
        "typing errors",
        "robustness",
        "INV",
        templates(
            "How can I become {job.a} in {place}? | What do I need to become {job.a} in {place}?",
            "Where can I buy {sold} in {place}? | Where can I sell {sold} in {place}?",
            "Why did {name} move to {place}? | What made {name} move to {place}?",
            "What should I do before {meal}? | What should I do after {meal}?",
        ),
        change=typo,
    ),
    Probe(
        "contractions",
        "robustness",
        "INV",
        templates(
            "Why did {name} say it is not {trait} to leave? | Why did {name} leave?",
            "Who says that {name} is not {trait}? | Who says that {name} is {trait}?",
            "What if {place} was not so far? | What if {place} was nearer?",
            "Who did not learn {field} in {place}? | Who learnt {field} in {place}?",
        ),
        change=contracted,
    ),
    Probe(
        "the two in the other order",
        "robustness",
        "INV",
        templates(
            "How can I become {job.a} in {place}? | What do I need to become {job.a} in {place}?",
            "Is {name} {job.a}? | Is {name} a retired {job}?",
            "What should I do before {meal}? | What should I do after {meal}?",
            "How can I become {become}? | How can I become {become.like}?",
        ),
        change=changed_places,
    ),
    Probe(
        "another subject in the second",
        "entities",
        "DIR",
        templates(
            (
                "How can I learn {field}? | What is the best way to learn {field}?",
                "How can I learn {field}? | What is the best way to learn {field2}?",
            ),
            (
                "Why did {name} move to {place}? | What made {name} move to {place}?",
                "Why did {name} move to {place}? | What made {name2} move to {place}?",
            ),
            (
                "Where can I buy {sold} in {place}? | Which shop in {place} has {sold}?",
                "Where can I buy {sold} in {place}? | Which shop in {place2} has {sold}?",
            ),
            (
                "What should I do before {meal}? | What is to be done before {meal}?",
                "What should I do before {meal}? | What is to be done before {meal2}?",
            ),
        ),
        SAME,
        "down",
    ),
    Probe(
        "a condition in the second",
        "vocabulary",
        "DIR",
        templates(
            (
                "How can I learn {field}? | What is the best way to learn {field}?",
                "How can I learn {field}? | What is the best way to learn {field} if I am {trait}?",
            ),
            (
                "Where can I buy {sold}? | Which shop has {sold}?",
                "Where can I buy {sold}? | Which shop has {sold} for {job.a}?",
            ),
            (
                "Why did {name} move to {place}? | What made {name} move to {place}?",
                "Why did {name} move to {place}? | What made {name} move to {place} on a {day}?",
            ),
            (
                "What should I do before {meal}? | What is to be done before {meal}?",
                "What should I do before {meal}? | What is to be done by {job.a} before {meal}?",
            ),
        ),
        SAME,
        "down",
    ),
)

PARAPHRASE = Probes(version=1, words=WORDS, tests=TESTS)
