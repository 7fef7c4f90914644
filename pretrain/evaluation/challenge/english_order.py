"""English phenomena of order: good and bad hold the same words. Must not import torch.

The language of the templates is that of `templates.py`; how each group balances itself is said in `english.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

# Three pairs a group: the adjective goes right past the noun, left past the determiner; the noun goes left past the
# adjective, right past the preposition (in verb_phrase: the verb left past the subject noun, right past the object).
WORD_ORDER = templates_of(
    "word_order",
    subject_in=(
        "Today [the {quality}/{quality} the] {thing.one} in the house was there.",
        "Today the [{quality} {thing.one}/{thing.one} {quality}] in the house was there.",
        "Today the {quality} [{thing.one} in/in {thing.one}] the house was there.",
    ),
    object_for=(
        "We talk about [the {quality}/{quality} the] {thing.one} for the {person.one}.",
        "We talk about the [{quality} {thing.one}/{thing.one} {quality}] for the {person.one}.",
        "We talk about the {quality} [{thing.one} for/for {thing.one}] the {person.one}.",
    ),
    part_of=(
        "It returns [the {quality}/{quality} the] {part.one} from the list.",
        "It returns the [{quality} {part.one}/{part.one} {quality}] from the list.",
        "It returns the {quality} [{part.one} from/from {part.one}] the list.",
    ),
    plural_with=(
        "They point at [the {quality}/{quality} the] {thing.many} with the names.",
        "They point at the [{quality} {thing.many}/{thing.many} {quality}] with the names.",
        "They point at the {quality} [{thing.many} with/with {thing.many}] the names.",
    ),
    this_on=(
        "Look at [this {quality}/{quality} this] {thing.one} on the table.",
        "Look at this [{quality} {thing.one}/{thing.one} {quality}] on the table.",
        "Look at this {quality} [{thing.one} on/on {thing.one}] the table.",
    ),
    verb_phrase=(
        "Then the [{person.one} {handle.past}/{handle.past} {person.one}] a {consonant_noun}.",
        "Then the {person.one} [{handle.past} a/a {handle.past}] {consonant_noun}.",
        "Then [the {person.one}/{person.one} the] {handle.past} a {consonant_noun}.",
    ),
    to_verb=(
        "You need [to {handle.base}/{handle.base} to] the {thing.one} first.",
        "You need to [{handle.base} the/the {handle.base}] {thing.one} first.",
    ),
    modal=(
        "The {part.one} [can {handle.base}/{handle.base} can] the {thing.many} again.",
        "The {part.one} can [{handle.base} the/the {handle.base}] {thing.many} again.",
    ),
    passive=(
        "The {thing.one} is [{handle.past} by/by {handle.past}] the {person.one}.",
        "The {thing.one} [is {handle.past}/{handle.past} is] by the {person.one}.",
    ),
    preposition=(
        "It is in [the {thing.one}/{thing.one} the] of the {person.one}.",
        "It is in the [{thing.one} of/of {thing.one}] the {person.one}.",
    ),
)

INVERSION = templates_of(
    "inversion",
    where_can=(
        "Where [can the {person.one}/the {person.one} can] {handle.base} it?",
        "Ask where [the {person.one} can/can the {person.one}] {handle.base} it.",
    ),
    why_is=(
        "Why [is the {thing.one}/the {thing.one} is] so {quality}?",
        "Explain why [the {thing.one} is/is the {thing.one}] so {quality}.",
    ),
    how_should=(
        "How [should the {part.one}/the {part.one} should] {operate.base}?",
        "Define how [the {part.one} should/should the {part.one}] {operate.base}.",
    ),
    when_will=(
        "When [will the {person.many}/the {person.many} will] {act.base}?",
        "We know when [the {person.many} will/will the {person.many}] {act.base}.",
    ),
    what_has=(
        "What [has the {person.one}/the {person.one} has] {handle.past}?",
        "This shows what [the {person.one} has/has the {person.one}] {handle.past}.",
    ),
    where_are=(
        "Where [are the {thing.many}/the {thing.many} are] now?",
        "Nobody knows where [the {thing.many} are/are the {thing.many}] now.",
    ),
    how_is=(
        "How [is the {part.one}/the {part.one} is] {handle.past}?",
        "It depends on how [the {part.one} is/is the {part.one}] {handle.past}.",
    ),
    why_were=(
        "Why [were the {person.many}/the {person.many} were] {quality}?",
        "They wonder why [the {person.many} were/were the {person.many}] {quality}.",
    ),
    which_must=(
        "Which {thing.many} [must the {person.one}/the {person.one} must] {handle.base}?",
        "It says which {thing.many} [the {person.one} must/must the {person.one}] {handle.base}.",
    ),
    how_quality=(
        "How {quality} [was the {thing.one}/the {thing.one} was]?",
        "I remember how {quality} [the {thing.one} was/was the {thing.one}].",
    ),
)

ADJECTIVE_POSITION = templates_of(
    "adjective_position",
    something=(
        "She looked at the [{quality} {thing.one}/{thing.one} {quality}] there.",
        "She looked at [something {quality}/{quality} something] there.",
    ),
    anything=(
        "Is there any [{quality} {thing.one}/{thing.one} {quality}] here?",
        "Is there [anything {quality}/{quality} anything] here?",
    ),
    nothing=(
        "There is no [{quality} {thing.one}/{thing.one} {quality}] in the house.",
        "There is [nothing {quality}/{quality} nothing] in the house.",
    ),
    somebody=(
        "We met the [{comparable} {person.one}/{person.one} {comparable}] again.",
        "We met [somebody {comparable}/{comparable} somebody] again.",
    ),
    everything=(
        "They talk of the [{quality} {thing.many}/{thing.many} {quality}] at home.",
        "They talk of [everything {quality}/{quality} everything] at home.",
    ),
    someone=(
        "It was made by the [{quality} {person.one}/{person.one} {quality}] in the end.",
        "It was made by [someone {quality}/{quality} someone] in the end.",
    ),
    do_something=(
        "You should do the [{comparable} {thing.one}/{thing.one} {comparable}] first.",
        "You should do [something {comparable}/{comparable} something] first.",
    ),
    returns_nothing=(
        "It returns the [{comparable} {part.one}/{part.one} {comparable}] if possible.",
        "It returns [nothing {comparable}/{comparable} nothing] if possible.",
    ),
    for_anyone=(
        "This is for the [{comparable} {person.many}/{person.many} {comparable}] only.",
        "This is for [anyone {comparable}/{comparable} anyone] only.",
    ),
    about_something=(
        "The {person.one} talks about the [{quality} {thing.one}/{thing.one} {quality}] now.",
        "The {person.one} talks about [something {quality}/{quality} something] now.",
    ),
)

DEGREE_POSITION = templates_of(
    "degree_position",
    very=(
        "The {thing.one} is [very {quality}/{quality} very] today.",
        "The {thing.one} is [{quality} enough/enough {quality}] today.",
    ),
    too=(
        "The {part.one} was [too {quality}/{quality} too] for this.",
        "The {part.one} was [{quality} enough/enough {quality}] for this.",
    ),
    so=(
        "It looks [so {quality}/{quality} so] to the {person.one}.",
        "It looks [{quality} enough/enough {quality}] to the {person.one}.",
    ),
    quite=(
        "They are [quite {comparable}/{comparable} quite] in the {thing.one}.",
        "They are [{comparable} enough/enough {comparable}] in the {thing.one}.",
    ),
    more=(
        "Nothing [more {comparable}/{comparable} more] came later.",
        "Nothing [{comparable} enough/enough {comparable}] came later.",
    ),
    condition=(
        "If the {thing.one} is [very {comparable}/{comparable} very], keep it.",
        "If the {thing.one} is [{comparable} enough/enough {comparable}], keep it.",
    ),
    plural=(
        "The {thing.many} are [too {comparable}/{comparable} too] to keep.",
        "The {thing.many} are [{comparable} enough/enough {comparable}] to keep.",
    ),
    negated=(
        "It was not [very {quality}/{quality} very] for a {consonant_noun}.",
        "It was not [{quality} enough/enough {quality}] for a {consonant_noun}.",
    ),
    person=(
        "The {person.one} is [really {quality}/{quality} really] at home.",
        "The {person.one} is [{quality} enough/enough {quality}] at home.",
    ),
    question=(
        "Is this {part.one} [so {comparable}/{comparable} so] here?",
        "Is this {part.one} [{comparable} enough/enough {comparable}] here?",
    ),
)
