"""English phenomena of choice: what a negation, a time, a verb or an adjective asks for. Must not import torch.

The language of the templates is that of `templates.py`; how each group balances itself is said in `english.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

# Some words want a negation (either, yet, ever, any-), their partners refuse one (too, already, never, no-).
POLARITY = templates_of(
    "polarity",
    either=(
        "The {person.one} does not {act.base} [either/too].",
        "The {person.one} {act.s} [too/either].",
    ),
    either_quality=(
        "The {thing.one} was not {quality} [either/too].",
        "The {thing.one} was {quality} [too/either].",
    ),
    neither=(
        "The {person.one} does not {act.base}, and [neither/so] does the {person2.one}.",
        "The {person.one} {act.s}, and [so/neither] does the {person2.one}.",
    ),
    neither_plural=(
        "The {thing.many} are not {quality}, and [neither/so] are the {thing2.many}.",
        "The {thing.many} are {quality}, and [so/neither] are the {thing2.many}.",
    ),
    yet=(
        "The {person.one} has not {handle.past} the {thing.one} [yet/already].",
        "The {person.one} has {handle.past} the {thing.one} [already/yet].",
    ),
    yet_here=("The {thing.many} are not here [yet/already].", "The {thing.many} are here [already/yet]."),
    ever=(
        "The {person.one} has not [ever/never] {handle.past} the {thing.one}.",
        "The {person.one} has [never/ever] {handle.past} the {thing.one}.",
    ),
    anything=(
        "That night the {person.one} did not {handle.base} [anything/nothing].",
        "That night the {person.one} {handle.past} [nothing/anything].",
    ),
    any=(
        "Last week the {person.many} did not {handle.base} [any/no] {thing.many}.",
        "Last week the {person.many} {handle.past} [no/any] {thing.many}.",
    ),
    anybody=(
        "That day the {person.one} did not meet [anybody/nobody] near the {thing.one}.",
        "That day the {person.one} met [nobody/anybody] near the {thing.one}.",
    ),
)

# The tense must fit the time that is named.
TENSE_TIME = templates_of(
    "tense_time",
    negated=(
        "Tomorrow the {person.one} [will/did] not {handle.base} the {thing.one}.",
        "Yesterday the {person.one} [did/will] not {handle.base} the {thing.one}.",
    ),
    question=(
        "What [did/will] the {person.one} {handle.base} yesterday?",
        "What [will/did] the {person.one} {handle.base} tomorrow?",
    ),
    quality=(
        "The {thing.one} [was/will be] {quality} last year.",
        "The {thing.one} [will be/was] {quality} next year.",
    ),
    week=(
        "Last week the {person.many} [{handle.past}/will {handle.base}] the {thing.one}.",
        "Next week the {person.many} [will {handle.base}/{handle.past}] the {thing.one}.",
    ),
    ago=(
        "We {handle.past} the {thing.one} two days [ago/from now].",
        "We will {handle.base} the {thing.one} two days [from now/ago].",
    ),
    passive=(
        "The {thing.many} [were/will be] {handle.past} last month.",
        "The {thing.many} [will be/were] {handle.past} next month.",
    ),
    adverb=(
        "[Yesterday/Tomorrow] the {person.one} {handle.past} the {thing.one}.",
        "[Tomorrow/Yesterday] the {person.one} will {handle.base} the {thing.one}.",
    ),
    why=(
        "Why [did/will] the {part.one} not {operate.base} yesterday?",
        "Why [will/did] the {part.one} not {operate.base} tomorrow?",
    ),
    future=(
        "In the past the {person.many} [did/will] not {handle.base} {thing.many}.",
        "In the future the {person.many} [will/did] not {handle.base} {thing.many}.",
    ),
    last=(
        "The {person.one} {handle.past} the {thing.one} [last/next] week.",
        "The {person.one} will {handle.base} the {thing.one} [next/last] week.",
    ),
)

# A verb that needs an object against one that takes none.
TRANSITIVITY = templates_of(
    "transitivity",
    garden=(
        "The {person.one} [{transitive.past}/{intransitive.past}] the {thing.one}.",
        "The {person.one} [{intransitive.past}/{transitive.past}] in the garden.",
    ),
    will=(
        "The {person.one} will [{transitive.base}/{intransitive.base}] the {thing.many}.",
        "The {person.one} will [{intransitive.base}/{transitive.base}] again.",
    ),
    infinitive=(
        "They wanted to [{transitive.base}/{intransitive.base}] the {thing.one}.",
        "They wanted to [{intransitive.base}/{transitive.base}].",
    ),
    because=(
        "We left because the {person.one} [{transitive.past}/{intransitive.past}] it.",
        "We left because the {person.one} [{intransitive.past}/{transitive.past}].",
    ),
    passive=(
        "The {thing.one} was [{transitive.past}/{intransitive.past}] by the {person.one}.",
        "At the door the {person.one} has [{intransitive.past}/{transitive.past}].",
    ),
    let=(
        "Let them [{transitive.base}/{intransitive.base}] the {thing.one} first.",
        "Let them [{intransitive.base}/{transitive.base}] first.",
    ),
    every=(
        "Every {person.one} [{transitive.s}/{intransitive.s}] the {thing.one}.",
        "Every {person.one} [{intransitive.s}/{transitive.s}] now and then.",
    ),
    question=(
        "Why did the {person.one} [{transitive.base}/{intransitive.base}] the {thing.one}?",
        "Why did the {person.one} [{intransitive.base}/{transitive.base}]?",
    ),
    progressive=(
        "Without [{transitive.ing}/{intransitive.ing}] the {thing.one} they left.",
        "Without [{intransitive.ing}/{transitive.ing}] they left.",
    ),
    plural=(
        "The {person.many} [{transitive.past}/{intransitive.past}] them.",
        "The {person.many} [{intransitive.past}/{transitive.past}] at once.",
    ),
)

# A verb that is followed by an infinitive against one that is followed by a gerund.
COMPLEMENT_FORM = templates_of(
    "complement_form",
    past=(
        "The {person.one} [{hoping.past}/{enjoying.past}] to {handle.base} the {thing.one}.",
        "The {person.one} [{enjoying.past}/{hoping.past}] {handle.ing} the {thing.one}.",
    ),
    never=(
        "They never [{hoping.past}/{enjoying.past}] to {handle.base} it.",
        "They never [{enjoying.past}/{hoping.past}] {handle.ing} it.",
    ),
    nobody=(
        "Nobody will [{hoping.base}/{enjoying.base}] to {handle.base} the {thing.many}.",
        "Nobody will [{enjoying.base}/{hoping.base}] {handle.ing} the {thing.many}.",
    ),
    every=(
        "Every {person.one} [{hoping.s}/{enjoying.s}] to {handle.base} it.",
        "Every {person.one} [{enjoying.s}/{hoping.s}] {handle.ing} it.",
    ),
    negated=(
        "The {person.many} did not [{hoping.base}/{enjoying.base}] to {handle.base} the {part.one}.",
        "The {person.many} did not [{enjoying.base}/{hoping.base}] {handle.ing} the {part.one}.",
    ),
    why=(
        "Why did they [{hoping.base}/{enjoying.base}] to {handle.base} it?",
        "Why did they [{enjoying.base}/{hoping.base}] {handle.ing} it?",
    ),
    perfect=(
        "{name.he} has always [{hoping.past}/{enjoying.past}] to {handle.base} {thing.many}.",
        "{name.he} has always [{enjoying.past}/{hoping.past}] {handle.ing} {thing.many}.",
    ),
    relative=(
        "The {person.one} who [{hoping.past}/{enjoying.past}] to {handle.base} it left.",
        "The {person.one} who [{enjoying.past}/{hoping.past}] {handle.ing} it left.",
    ),
    may=(
        "You may [{hoping.base}/{enjoying.base}] to {handle.base} the {thing.one}.",
        "You may [{enjoying.base}/{hoping.base}] {handle.ing} the {thing.one}.",
    ),
    doubt=(
        "I doubt that they [{hoping.past}/{enjoying.past}] to {handle.base} the {thing.one}.",
        "I doubt that they [{enjoying.past}/{hoping.past}] {handle.ing} the {thing.one}.",
    ),
)

# Each adjective has its preposition: proud of, similar to.
PREPOSITION = templates_of(
    "preposition",
    present=(
        "The {person.one} is {of_adjective} [of/to] the {thing.one}.",
        "The {person.one} is {to_adjective} [to/of] the {thing.one}.",
    ),
    was=(
        "The {person.one} was {of_adjective} [of/to] the {person2.one}.",
        "The {person.one} was {to_adjective} [to/of] the {person2.one}.",
    ),
    plural=(
        "Some {person.many} are {of_adjective} [of/to] {thing.many}.",
        "Some {person.many} are {to_adjective} [to/of] {thing.many}.",
    ),
    nobody=(
        "Nobody is {of_adjective} [of/to] this {thing.one}.",
        "Nobody is {to_adjective} [to/of] this {thing.one}.",
    ),
    question=(
        "Is the {person.one} {of_adjective} [of/to] {name.she}?",
        "Is the {person.one} {to_adjective} [to/of] {name.she}?",
    ),
    stranded=(
        "What is the {person.one} {of_adjective} [of/to]?",
        "What is the {person.one} {to_adjective} [to/of]?",
    ),
    perfect=(
        "{name.she} has always been {of_adjective} [of/to] the {thing.one}.",
        "{name.she} has always been {to_adjective} [to/of] the {thing.one}.",
    ),
    hard=(
        "It is hard to be {of_adjective} [of/to] a {consonant_noun}.",
        "It is hard to be {to_adjective} [to/of] a {consonant_noun}.",
    ),
    became=(
        "They became {of_adjective} [of/to] the {thing.many}.",
        "They became {to_adjective} [to/of] the {thing.many}.",
    ),
    relative=(
        "The {thing.one} that {name.he} is {of_adjective} [of/to] was here.",
        "The {thing.one} that {name.he} is {to_adjective} [to/of] was here.",
    ),
)
