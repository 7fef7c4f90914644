"""A check list for heads that tell positive from negative reviews. Must not import torch."""

from pretrain.evaluation.challenge.probes import Probe, Probes, contracted, plain, templates, typo, without_full_stop
from pretrain.evaluation.challenge.probes_words import SHARED

POSITIVE, NEGATIVE = ("positive",), ("negative",)

WORDS = {
    **SHARED,
    "part": plain(
        "plot, acting, script, music, cast, dialogue, ending, direction, editing, story, opening, scenery, humour, "
        "soundtrack, premise, screenplay, final scene, first half, main character, camera work"
    ),
    "good": plain(
        "good, great, excellent, wonderful, fantastic, superb, brilliant, delightful, charming, beautiful, amazing, "
        "impressive, terrific, enjoyable, touching, gripping, lovely, remarkable, outstanding, clever"
    ),
    "bad": plain(
        "bad, terrible, awful, horrible, dreadful, boring, dull, disappointing, weak, poor, annoying, tedious, clumsy, "
        "lifeless, ugly, unbearable, pathetic, ridiculous, painful, stupid"
    ),
    "loved": plain("loved, enjoyed, adored, liked, admired, appreciated, treasured, praised, recommended, cherished"),
    "hated": plain("hated, disliked, despised, detested, loathed, resented, regretted, dreaded, condemned, deplored"),
    "very": plain("very, really, extremely, truly, incredibly, exceptionally, so, thoroughly"),
    "rather": plain("somewhat, slightly, kind of, sort of, moderately, vaguely, a bit, a little"),
}

TESTS = (
    Probe(
        "positive words",
        "vocabulary",
        "MFT",
        templates(
            "The {part} is {good}.",
            "This is {good.a} film.",
            "I {loved} the {part}.",
            "What {good.a} film with {good2.a} {part}!",
            "The {part} was {good} and the {part2} was {good2}.",
        ),
        POSITIVE,
    ),
    Probe(
        "negative words",
        "vocabulary",
        "MFT",
        templates(
            "The {part} is {bad}.",
            "This is {bad.a} film.",
            "I {hated} the {part}.",
            "What {bad.a} film with {bad2.a} {part}!",
            "The {part} was {bad} and the {part2} was {bad2}.",
        ),
        NEGATIVE,
    ),
    Probe(
        "negated positive words",
        "negation",
        "MFT",
        templates(
            "The {part} is not {good}.",
            "This is not {good.a} film.",
            "I can't say that the {part} is {good}.",
            "Nobody {loved} the {part}.",
            "There is nothing {good} about the {part}.",
        ),
        NEGATIVE,
    ),
    Probe(
        "negated negative words",
        "negation",
        "MFT",
        templates(
            "The {part} is not {bad}.",
            "This is not {bad.a} film at all.",
            "I can't say that the {part} is {bad}.",
            "Nobody {hated} the {part}.",
            "There is nothing {bad} about the {part}.",
        ),
        POSITIVE,
    ),
    Probe(
        "an expectation that is not met",
        "negation",
        "MFT",
        templates(
            "I thought the {part} would be {good}, but it was not.",
            "I expected {good.a} {part}, but did not get one.",
            "{name} told me the {part} is {good}, but it is not.",
            "The {part} was meant to be {good}, which it is not.",
            "I hoped for {good.a} film; it is anything but that.",
        ),
        NEGATIVE,
    ),
    Probe(
        "a view that became positive",
        "temporal order",
        "MFT",
        templates(
            "I used to think the {part} was {bad}, but now I think it is {good}.",
            "Now I think the {part} is {good}, although I used to think it was {bad}.",
            "At first the film seemed {bad}, in the end it was {good}.",
            "In the past I {hated} this film, today I think it is {good}.",
            "Before I saw it twice I found it {bad}; now I find it {good}.",
        ),
        POSITIVE,
    ),
    Probe(
        "a view that became negative",
        "temporal order",
        "MFT",
        templates(
            "I used to think the {part} was {good}, but now I think it is {bad}.",
            "Now I think the {part} is {bad}, although I used to think it was {good}.",
            "At first the film seemed {good}, in the end it was {bad}.",
            "In the past I {loved} this film, today I think it is {bad}.",
            "Before I saw it twice I found it {good}; now I find it {bad}.",
        ),
        NEGATIVE,
    ),
    Probe(
        "the writer's view, positive",
        "roles",
        "MFT",
        templates(
            "Some people think the {part} is {bad}, but I think it is {good}.",
            "I think the {part} is {good}, whatever the critics say about {bad.a} {part2}.",
            "{name} calls the film {bad}, I call it {good}.",
            "My friends {hated} it, I {loved} it.",
            "The critics were told it is {bad}; to me it is {good}.",
        ),
        POSITIVE,
    ),
    Probe(
        "the writer's view, negative",
        "roles",
        "MFT",
        templates(
            "Some people think the {part} is {good}, but I think it is {bad}.",
            "I think the {part} is {bad}, whatever the critics say about {good.a} {part2}.",
            "{name} calls the film {good}, I call it {bad}.",
            "My friends {loved} it, I {hated} it.",
            "The critics were told it is {good}; to me it is {bad}.",
        ),
        NEGATIVE,
    ),
    Probe(
        "names",
        "irrelevant change",
        "INV",
        templates(
            *(
                tuple(pattern.replace("NAME", f"{{name{number}}}") for number in ("", "2", "3"))
                for pattern in (
                    "NAME told me that the {part} is {good}.",
                    "I saw it with NAME, and the {part} is {bad}.",
                    "NAME, who plays the {job}, is {good}.",
                    "The {job} is played by NAME, and the {part} is {bad}.",
                    "Like NAME I think that this film is {good}.",
                )
            )
        ),
    ),
    Probe(
        "places",
        "irrelevant change",
        "INV",
        templates(
            *(
                tuple(pattern.replace("PLACE", f"{{place{number}}}") for number in ("", "2", "3"))
                for pattern in (
                    "This film from PLACE is {good}.",
                    "I saw it in PLACE; the {part} is {bad}.",
                    "The scenes in PLACE are {good}.",
                    "{job.a} in PLACE, {bad.a} {part}: that is all.",
                    "It plays in PLACE, and the {part} is {good}.",
                )
            )
        ),
    ),
    Probe(
        "when it was seen",
        "irrelevant change",
        "INV",
        templates(
            (
                "The {part} is {good}.",
                "I saw it on {day}. The {part} is {good}.",
                "The {part} is {good}. It was {day}.",
            ),
            ("The {part} is {bad}.", "I saw it on {day}. The {part} is {bad}.", "The {part} is {bad}. It was {day}."),
            ("This is {good.a} film.", "On {day} I saw it. This is {good.a} film."),
            ("This is {bad.a} film.", "On {day} I saw it. This is {bad.a} film."),
            ("I {loved} the {part}.", "On {day} I {loved} the {part}.", "I {loved} the {part} on {day}."),
        ),
    ),
    Probe(
        "typing errors",
        "robustness",
        "INV",
        templates(
            "I think that the {part} of this film is {good}.",
            "I think that the {part} of this film is {bad}.",
            "{name} says that everyone {loved} the {part}.",
            "{name} says that everyone {hated} the {part}.",
            "The {part} was {good} and the {part2} was {good2}.",
        ),
        change=typo,
    ),
    Probe(
        "full stops",
        "robustness",
        "INV",
        templates(
            "The {part} is {good}.",
            "The {part} is {bad}.",
            "I {loved} the {part}.",
            "I {hated} the {part}.",
            "What {good.a} film!",
        ),
        change=without_full_stop,
    ),
    Probe(
        "contractions",
        "robustness",
        "INV",
        templates(
            "The {part} is not {good}.",
            "The {part} was not {bad}.",
            "I did not think that the {part} is {good}.",
            "{name} was not sure that the {part} is {good}.",
            "This is not {bad.a} film.",
        ),
        change=contracted,
    ),
    Probe(
        "stronger praise",
        "intensity",
        "DIR",
        templates(
            ("The {part} is {good}.", "The {part} is {very} {good}."),
            ("I find the {part} {good}.", "I find the {part} {very} {good}."),
            ("The film was {good}.", "The film was {very} {good}."),
            ("Both the {part} and the {part2} are {good}.", "Both the {part} and the {part2} are {very} {good}."),
            ("It is {good} to watch.", "It is {very} {good} to watch."),
        ),
        POSITIVE,
        "up",
    ),
    Probe(
        "stronger blame",
        "intensity",
        "DIR",
        templates(
            ("The {part} is {bad}.", "The {part} is {very} {bad}."),
            ("I find the {part} {bad}.", "I find the {part} {very} {bad}."),
            ("The film was {bad}.", "The film was {very} {bad}."),
            ("Both the {part} and the {part2} are {bad}.", "Both the {part} and the {part2} are {very} {bad}."),
            ("It is {bad} to watch.", "It is {very} {bad} to watch."),
        ),
        NEGATIVE,
        "up",
    ),
    Probe(
        "weaker praise",
        "intensity",
        "DIR",
        templates(
            ("The {part} is {good}.", "The {part} is {rather} {good}."),
            ("I find the {part} {good}.", "I find the {part} {rather} {good}."),
            ("The film was {good}.", "The film was {rather} {good}."),
            ("Both the {part} and the {part2} are {good}.", "Both the {part} and the {part2} are {rather} {good}."),
            ("It is {good} to watch.", "It is {rather} {good} to watch."),
        ),
        POSITIVE,
        "down",
    ),
    Probe(
        "praise added",
        "vocabulary",
        "DIR",
        templates(
            ("The {part} is by {name}.", "The {part} is by {name}. I {loved} it."),
            ("I saw it in {place}.", "I saw it in {place}. It is {good}."),
            ("The film plays on {day}.", "The film plays on {day}, and it is {good.a} film."),
            ("The {part} is {bad}.", "The {part} is {bad}, but the {part2} is {good}."),
            ("{job.a} meets {name}.", "{job.a} meets {name}: {good}!"),
        ),
        POSITIVE,
        "up",
    ),
    Probe(
        "blame added",
        "vocabulary",
        "DIR",
        templates(
            ("The {part} is by {name}.", "The {part} is by {name}. I {hated} it."),
            ("I saw it in {place}.", "I saw it in {place}. It is {bad}."),
            ("The film plays on {day}.", "The film plays on {day}, and it is {bad.a} film."),
            ("The {part} is {good}.", "The {part} is {good}, but the {part2} is {bad}."),
            ("{job.a} meets {name}.", "{job.a} meets {name}: {bad}!"),
        ),
        POSITIVE,
        "down",
    ),
)

SENTIMENT = Probes(version=1, words=WORDS, tests=TESTS)
