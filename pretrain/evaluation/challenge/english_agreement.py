"""English phenomena of agreement: number, gender, the sound after a/an, what can be counted. Must not import torch.

The language of the templates is that of `templates.py`; how each group balances itself is said in `english.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

AGREEMENT_SIMPLE = templates_of(
    "agreement_simple",
    person_today=("The {person.one} [{act.s}/{act.base}] today.", "The {person.many} [{act.base}/{act.s}] today."),
    person_often=(
        "Every morning the {person.one} [{act.s}/{act.base}] in the garden.",
        "Every morning the {person.many} [{act.base}/{act.s}] in the garden.",
    ),
    person_adjective=(
        "The new {person.one} [{act.s}/{act.base}] with us.",
        "The new {person.many} [{act.base}/{act.s}] with us.",
    ),
    person_object=(
        "The {person.one} [{handle.s}/{handle.base}] the {thing.one}.",
        "The {person.many} [{handle.base}/{handle.s}] the {thing.one}.",
    ),
    person_that=(
        "We know that the {person.one} [{handle.s}/{handle.base}] it.",
        "We know that the {person.many} [{handle.base}/{handle.s}] it.",
    ),
    part_default=(
        "By default, the {part.one} [{operate.s}/{operate.base}] at once.",
        "By default, the {part.many} [{operate.base}/{operate.s}] at once.",
    ),
    part_if=(
        "If the {part.one} [{operate.s}/{operate.base}], an error is raised.",
        "If the {part.many} [{operate.base}/{operate.s}], an error is raised.",
    ),
    part_when=(
        "This is called when the {part.one} [{operate.s}/{operate.base}].",
        "This is called when the {part.many} [{operate.base}/{operate.s}].",
    ),
    part_other=(
        "The other {part.one} [{operate.s}/{operate.base}] immediately.",
        "The other {part.many} [{operate.base}/{operate.s}] immediately.",
    ),
    part_until=(
        "Wait until the {part.one} [{operate.s}/{operate.base}].",
        "Wait until the {part.many} [{operate.base}/{operate.s}].",
    ),
)

AGREEMENT_ATTRACTOR = templates_of(
    "agreement_attractor",
    near=(
        "The {person.one} near the {thing.many} [{act.s}/{act.base}] today.",
        "The {person.many} near the {thing.one} [{act.base}/{act.s}] today.",
    ),
    with_thing=(
        "The {person.one} with the {thing.many} [{act.s}/{act.base}] every day.",
        "The {person.many} with the {thing.one} [{act.base}/{act.s}] every day.",
    ),
    behind=(
        "Usually the {person.one} behind the {person2.many} [{act.s}/{act.base}].",
        "Usually the {person.many} behind the {person2.one} [{act.base}/{act.s}].",
    ),
    next_to=(
        "The {person.one} next to the {person2.many} [{handle.s}/{handle.base}] it.",
        "The {person.many} next to the {person2.one} [{handle.base}/{handle.s}] it.",
    ),
    of_persons=(
        "The {person.one} of the {person2.many} [{handle.s}/{handle.base}] the {thing.one}.",
        "The {person.many} of the {person2.one} [{handle.base}/{handle.s}] the {thing.one}.",
    ),
    part_of=(
        "The {part.one} of the {thing.many} [{operate.s}/{operate.base}] immediately.",
        "The {part.many} of the {thing.one} [{operate.base}/{operate.s}] immediately.",
    ),
    part_for=(
        "The {part.one} for the {thing.many} [{operate.s}/{operate.base}] by default.",
        "The {part.many} for the {thing.one} [{operate.base}/{operate.s}] by default.",
    ),
    part_in=(
        "If the {part.one} in the {thing.many} [{operate.s}/{operate.base}], nothing is returned.",
        "If the {part.many} in the {thing.one} [{operate.base}/{operate.s}], nothing is returned.",
    ),
    thing_from=(
        "The {thing.one} from the {person.many} [was/were] {quality}.",
        "The {thing.many} from the {person.one} [were/was] {quality}.",
    ),
    thing_on=(
        "The {thing.one} behind the {thing2.many} [is/are] {quality}.",
        "The {thing.many} behind the {thing2.one} [are/is] {quality}.",
    ),
)

AGREEMENT_AUXILIARY = templates_of(
    "agreement_auxiliary",
    is_adjective=("The {thing.one} [is/are] {quality}.", "The {thing.many} [are/is] {quality}."),
    was_adjective=(
        "Last year the {thing.one} [was/were] {quality}.",
        "Last year the {thing.many} [were/was] {quality}.",
    ),
    part_is_not=("The {part.one} [is/are] not {quality}.", "The {part.many} [are/is] not {quality}."),
    part_used=(
        "The {part.one} [is/are] used by the {thing.one}.",
        "The {part.many} [are/is] used by the {thing.one}.",
    ),
    has_been=(
        "The {thing.one} [has/have] been {handle.past}.",
        "The {thing.many} [have/has] been {handle.past}.",
    ),
    person_has=(
        "The {person.one} [has/have] {handle.past} the {thing.one}.",
        "The {person.many} [have/has] {handle.past} the {thing.one}.",
    ),
    does_not=(
        "The {person.one} [does/do] not {act.base}.",
        "The {person.many} [do/does] not {act.base}.",
    ),
    part_does_not=(
        "The {part.one} [does/do] not {operate.base} if it is empty.",
        "The {part.many} [do/does] not {operate.base} if it is empty.",
    ),
    is_question=(
        "Why [is/are] the {thing.one} so {quality}?",
        "Why [are/is] the {thing.many} so {quality}?",
    ),
    there_is=(
        "There [is/are] one {thing.one} in the house.",
        "There [are/is] two {thing.many} in the house.",
    ),
)

A_AN = templates_of(
    "a_an",
    noun_this=("This is [a/an] {consonant_noun}.", "This is [an/a] {vowel_noun}."),
    noun_saw=("We saw [a/an] {consonant_noun} there.", "We saw [an/a] {vowel_noun} there."),
    noun_returns=("It returns [a/an] {consonant_noun}.", "It returns [an/a] {vowel_noun}."),
    noun_of=(
        "She wrote about [a/an] {consonant_noun} of this kind.",
        "She wrote about [an/a] {vowel_noun} of this kind.",
    ),
    noun_with=(
        "The {person.one} came with [a/an] {consonant_noun}.",
        "The {person.one} came with [an/a] {vowel_noun}.",
    ),
    noun_if=("If [a/an] {consonant_noun} is given, it is used.", "If [an/a] {vowel_noun} is given, it is used."),
    adjective_is=(
        "It is [a/an] {consonant_adjective} {thing.one}.",
        "It is [an/a] {vowel_adjective} {thing.one}.",
    ),
    adjective_has=(
        "The house has [a/an] {consonant_adjective} {thing.one}.",
        "The house has [an/a] {vowel_adjective} {thing.one}.",
    ),
    adjective_need=(
        "They need [a/an] {consonant_adjective} {part.one} for this.",
        "They need [an/a] {vowel_adjective} {part.one} for this.",
    ),
    adjective_for=(
        "Here is the default for [a/an] {consonant_adjective} {part.one}.",
        "Here is the default for [an/a] {vowel_adjective} {part.one}.",
    ),
)

DETERMINER_NOUN = templates_of(
    "determiner_noun",
    this_object=(
        "The {person.one} will {handle.base} this [{thing.one}/{thing.many}].",
        "The {person.one} will {handle.base} these [{thing.many}/{thing.one}].",
    ),
    that_object=(
        "We should {handle.base} that [{thing.one}/{thing.many}].",
        "We should {handle.base} those [{thing.many}/{thing.one}].",
    ),
    this_made=(
        "Who made [this/these] {thing.one}?",
        "Who made [these/this] {thing.many}?",
    ),
    that_with=(
        "They came with [that/those] {person.one} again.",
        "They came with [those/that] {person.many} again.",
    ),
    adjective_this=(
        "You can use this {quality} [{thing.one}/{thing.many}] here.",
        "You can use these {quality} [{thing.many}/{thing.one}] here.",
    ),
    adjective_that=(
        "He looked at [that/those] {quality} {thing.one}.",
        "He looked at [those/that] {quality} {thing.many}.",
    ),
    number=(
        "The box holds one [{thing.one}/{thing.many}].",
        "The box holds two [{thing.many}/{thing.one}].",
    ),
    number_adjective=(
        "There was only one {quality} [{thing.one}/{thing.many}].",
        "There were only three {quality} [{thing.many}/{thing.one}].",
    ),
    each=(
        "It is called once for each [{part.one}/{part.many}].",
        "It is called once for several [{part.many}/{part.one}].",
    ),
    every=(
        "Every [{person.one}/{person.many}] could see it.",
        "Several [{person.many}/{person.one}] could see it.",
    ),
)

QUANTIFIER = templates_of(
    "quantifier",
    how=("How [many/much] {thing.many} can you see?", "How [much/many] {mass} can you see?"),
    too=("There was too [much/many] {mass}.", "There were too [many/much] {thing.many}."),
    negated=("We do not have [much/many] {mass}.", "We do not have [many/much] {thing.many}."),
    so=(
        "The {person.one} had never seen so [much/many] {mass}.",
        "The {person.one} had never seen so [many/much] {thing.many}.",
    ),
    as_you_like=("Take as [much/many] {mass} as you like.", "Take as [many/much] {thing.many} as you like."),
    without=("It works without [much/many] {mass}.", "It works without [many/much] {thing.many}."),
    need=("Does it need [much/many] {mass}?", "Does it need [many/much] {part.many}?"),
    of_the=("They lost [much/many] of the {mass}.", "They lost [many/much] of the {thing.many}."),
    no_matter=(
        "It depends on how [much/many] {mass} you have.",
        "It depends on how [many/much] {part.many} you have.",
    ),
    very=("Very [much/many] {mass} is lost this way.", "Very [many/much] {part.many} are lost this way."),
)

REFLEXIVE = templates_of(
    "reflexive",
    gender_noun=(
        "The {gendered.he} {regarded} [himself/herself].",
        "The {gendered.she} {regarded} [herself/himself].",
    ),
    gender_name=("{name.he} {regarded} [himself/herself].", "{name.she} {regarded} [herself/himself]."),
    gender_later=(
        "Later the {gendered.he} {regarded} [himself/herself] again.",
        "Later the {gendered.she} {regarded} [herself/himself] again.",
    ),
    gender_mirror=(
        "Yesterday {name.he} looked at [himself/herself] in the mirror.",
        "Yesterday {name.she} looked at [herself/himself] in the mirror.",
    ),
    gender_other=(
        "The {gendered.he} near that {person.one} {regarded} [himself/herself].",
        "The {gendered.she} near that {person.one} {regarded} [herself/himself].",
    ),
    gender_pronoun=(
        "The {person.one} said that he {regarded} [himself/herself].",
        "The {person.one} said that she {regarded} [herself/himself].",
    ),
    number_noun=(
        "The {gendered.he} {regarded} [himself/themselves].",
        "The {gendered.they} {regarded} [themselves/himself].",
    ),
    number_talk=(
        "Sometimes the {gendered.he} talked to [himself/themselves].",
        "Sometimes the {gendered.they} talked to [themselves/himself].",
    ),
    number_thing=(
        "The {part.one} can {handle.base} [itself/themselves].",
        "The {part.many} can {handle.base} [themselves/itself].",
    ),
    number_emphatic=(
        "The {thing.one} [itself/themselves] is {quality}.",
        "The {thing.many} [themselves/itself] are {quality}.",
    ),
)
