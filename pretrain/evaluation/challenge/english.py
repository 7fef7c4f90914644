"""The English grammar of minimal pairs: sixteen phenomena. Must not import torch.

How each group balances itself, so that a scorer blind to context gets exactly one half:

- most phenomena: the two patterns of a template take the same two words in opposite roles (`[waits/wait]` after a
  singular, `[wait/waits]` after a plural), with the same fillers, so that each word is right once and wrong once;
- word_order: good and bad hold the same words, so any bag of words ties (a tie counts one half); besides, in each group
  every content word that is moved is moved to the left once and to the right once, so that no liking for early or
  late adjectives, nouns or verbs helps;
- inversion, adjective_position, degree_position: ties for a bag of words as well, and each order is good in one
  pattern and bad in the other.
"""

from pretrain.evaluation.challenge.english_words import ENGLISH_WORDS
from pretrain.evaluation.challenge.templates import Grammar, Template


def _templates(phenomenon: str, **groups: tuple[str, ...]) -> tuple[Template, ...]:
    return tuple(Template(phenomenon, name, patterns) for name, patterns in groups.items())


AGREEMENT_SIMPLE = _templates(
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

AGREEMENT_ATTRACTOR = _templates(
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

AGREEMENT_AUXILIARY = _templates(
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

A_AN = _templates(
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

DETERMINER_NOUN = _templates(
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
        "It is called once for all [{part.many}/{part.one}].",
    ),
    every=(
        "Every [{person.one}/{person.many}] could see it.",
        "Several [{person.many}/{person.one}] could see it.",
    ),
)

QUANTIFIER = _templates(
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

REFLEXIVE = _templates(
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
        "The {gendered.he} of that {person.one} {regarded} [himself/herself].",
        "The {gendered.she} of that {person.one} {regarded} [herself/himself].",
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

PRONOUN_CASE = _templates(
    "pronoun_case",
    yesterday=(
        "Yesterday [{pronoun.subject}/{pronoun.object}] {handle.past} the {thing.one}.",
        "Yesterday the {person.one} {handle.past} [{pronoun.object}/{pronoun.subject}].",
    ),
    because=(
        "It stopped because [{pronoun.subject}/{pronoun.object}] {handle.past} it.",
        "It stopped because it {handle.past} [{pronoun.object}/{pronoun.subject}].",
    ),
    preposition=(
        "Then [{pronoun.subject}/{pronoun.object}] {handle.past} the {thing.one}.",
        "The {person.one} {handle.past} the {thing.one} with [{pronoun.object}/{pronoun.subject}].",
    ),
    when=(
        "When [{pronoun.subject}/{pronoun.object}] came, the {person.one} left.",
        "When the {person.one} came to [{pronoun.object}/{pronoun.subject}], we left.",
    ),
    can=(
        "In that case [{pronoun.subject}/{pronoun.object}] can {handle.base} the {thing.one}.",
        "In that case the {person.one} can {handle.base} [{pronoun.object}/{pronoun.subject}].",
    ),
    that=(
        "The {person.one} said that [{pronoun.subject}/{pronoun.object}] would {handle.base} it.",
        "The {person.one} said that to [{pronoun.object}/{pronoun.subject}].",
    ),
    giving=(
        "The {person.one} knew what [{pronoun.subject}/{pronoun.object}] wanted.",
        "The {person.one} gave [{pronoun.object}/{pronoun.subject}] a {consonant_noun}.",
    ),
    condition=(
        "If [{pronoun.subject}/{pronoun.object}] could {handle.base} it, we would know.",
        "If it could {handle.base} [{pronoun.object}/{pronoun.subject}], we would know.",
    ),
    suitable=(
        "Perhaps [{pronoun.subject}/{pronoun.object}] should {handle.base} the {thing.one}.",
        "Perhaps the {thing.one} is {quality} for [{pronoun.object}/{pronoun.subject}].",
    ),
    which=(
        "This is the {thing.one} which [{pronoun.subject}/{pronoun.object}] {handle.past}.",
        "This is the {thing.one} which {handle.past} [{pronoun.object}/{pronoun.subject}].",
    ),
)

RELATIVE_PRONOUN = _templates(
    "relative_pronoun",
    subject=(
        "The {person.one} [who/which] came first is known.",
        "The {thing.one} [which/who] came first is known.",
    ),
    was=("That is the {person.one} [who/which] was here.", "That is the {thing.one} [which/who] was here."),
    plural=(
        "They like the {person.many} [who/which] are new.",
        "They like the {thing.many} [which/who] are new.",
    ),
    has=(
        "We know the {quality} {person.one} [who/which] has changed.",
        "We know the {quality} {thing.one} [which/who] has changed.",
    ),
    comma=(
        "The {person.one}, [who/which] is {quality}, came later.",
        "The {thing.one}, [which/who] is {quality}, came later.",
    ),
    there=(
        "There are {person.many} [who/which] do not change.",
        "There are {thing.many} [which/who] do not change.",
    ),
    one=(
        "Is there any {person.one} [who/which] can stay?",
        "Is there any {thing.one} [which/who] can stay?",
    ),
    helped=(
        "The {gendered.he} [who/which] helped us was {quality}.",
        "The {thing.one} [which/who] helped us was {quality}.",
    ),
    told=(
        "Look at the {gendered.she} [who/which] is next to the door.",
        "Look at the {thing.one} [which/who] is next to the door.",
    ),
    new=(
        "She described the {person.many} [who/which] arrived yesterday.",
        "She described the {thing.many} [which/who] arrived yesterday.",
    ),
)

AUXILIARY_FORM = _templates(
    "auxiliary_form",
    will_has=(
        "The {person.one} will [{handle.base}/{handle.past}] the {thing.one}.",
        "The {person.one} has [{handle.past}/{handle.base}] the {thing.one}.",
    ),
    can_had=(
        "The {person.many} can [{handle.base}/{handle.past}] it.",
        "The {person.many} had [{handle.past}/{handle.base}] it.",
    ),
    must_have=(
        "You must [{handle.base}/{handle.past}] the {thing.many} now.",
        "You have [{handle.past}/{handle.base}] the {thing.many} now.",
    ),
    should_was=(
        "We should [{handle.base}/{handle.past}] it by tomorrow.",
        "It was [{handle.past}/{handle.base}] by the {person.one}.",
    ),
    to_is=(
        "They want to [{handle.base}/{handle.past}] the {thing.one}.",
        "They want the {thing.one} to be [{handle.past}/{handle.base}].",
    ),
    may_are=(
        "The {part.one} may [{handle.base}/{handle.past}] the {thing.many}.",
        "The {thing.many} are [{handle.past}/{handle.base}] by the {part.one}.",
    ),
    negated=(
        "The {person.one} did not [{handle.base}/{handle.past}] the {thing.one}.",
        "The {person.one} has not [{handle.past}/{handle.base}] the {thing.one}.",
    ),
    would_been=(
        "Nobody would [{handle.base}/{handle.past}] the {thing.one}.",
        "The {thing.one} has never been [{handle.past}/{handle.base}].",
    ),
    could_being=(
        "If they could [{handle.base}/{handle.past}] it, they would.",
        "If it is being [{handle.past}/{handle.base}], they know.",
    ),
    used_to=(
        "Use this option to [{handle.base}/{handle.past}] the {part.one}.",
        "With this option the {part.one} is [{handle.past}/{handle.base}].",
    ),
)

CORRELATIVE = _templates(
    "correlative",
    object=(
        "It is either the {thing.one} [or/and] the {thing2.one}.",
        "It is both the {thing.one} [and/or] the {thing2.one}.",
    ),
    person=(
        "We asked either the {person.one} [or/and] the {person2.one}.",
        "We asked both the {person.one} [and/or] the {person2.one}.",
    ),
    adjective=("It can be either {quality} [or/and] {quality2}.", "It can be both {quality} [and/or] {quality2}."),
    plural=(
        "You can use either {thing.many} [or/and] {thing2.many}.",
        "You can use both {thing.many} [and/or] {thing2.many}.",
    ),
    parts=(
        "This must be either a {consonant_noun} [or/and] a {thing.one}.",
        "This must be both a {consonant_noun} [and/or] a {thing.one}.",
    ),
    verb=(
        "They will either {handle.base} [or/and] {handle2.base} the {thing.one}.",
        "They will both {handle.base} [and/or] {handle2.base} the {thing.one}.",
    ),
    inside=(
        "It is kept either in the {thing.one} [or/and] in the {thing2.one}.",
        "It is kept both in the {thing.one} [and/or] in the {thing2.one}.",
    ),
    by=(
        "It was made either by the {person.one} [or/and] by the {person2.one}.",
        "It was made both by the {person.one} [and/or] by the {person2.one}.",
    ),
    between=(
        "They stand either near the {thing.one} [or/and] the {thing2.one}.",
        "They stand between the {thing.one} [and/or] the {thing2.one}.",
    ),
    mass=(
        "There was either {mass} [or/and] {mass2} in it.",
        "There was both {mass} [and/or] {mass2} in it.",
    ),
)

COMPARATIVE = _templates(
    "comparative",
    thing=(
        "This {thing.one} is more {comparable} [than/as] the other.",
        "This {thing.one} is as {comparable} [as/than] the other.",
    ),
    less=(
        "The {thing.one} was less {comparable} [than/as] the {thing2.one}.",
        "The {thing.one} was as {comparable} [as/than] the {thing2.one}.",
    ),
    we_think=(
        "We found it more {comparable} [than/as] before.",
        "We found it as {comparable} [as/than] before.",
    ),
    negated=(
        "It is not more {comparable} [than/as] a {consonant_noun}.",
        "It is not as {comparable} [as/than] a {consonant_noun}.",
    ),
    much=(
        "The {part.one} is much more {comparable} [than/as] this one.",
        "The {part.one} is just as {comparable} [as/than] this one.",
    ),
    plural=(
        "The {thing.many} are far more {comparable} [than/as] the {thing2.many}.",
        "The {thing.many} are almost as {comparable} [as/than] the {thing2.many}.",
    ),
    person=(
        "The {person.one} was more {comparable} [than/as] we thought.",
        "The {person.one} was as {comparable} [as/than] we thought.",
    ),
    noun=(
        "They have more {thing.many} [than/as] the {person.one}.",
        "They have as many {thing.many} [as/than] the {person.one}.",
    ),
    mass=(
        "It needs more {mass} [than/as] the {part.one}.",
        "It needs as much {mass} [as/than] the {part.one}.",
    ),
    other=(
        "Any other {thing.one} is more {comparable} [than/as] it.",
        "Any other {thing.one} is as {comparable} [as/than] it.",
    ),
)

# Three pairs a group: the adjective goes right past the noun, left past the determiner; the noun goes left past the
# adjective, right past the preposition (in verb_phrase: the verb left past the subject noun, right past the object).
WORD_ORDER = _templates(
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

INVERSION = _templates(
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

ADJECTIVE_POSITION = _templates(
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

DEGREE_POSITION = _templates(
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

ENGLISH = Grammar(
    language="english",
    version=1,
    words=ENGLISH_WORDS,
    templates=(
        *AGREEMENT_SIMPLE,
        *AGREEMENT_ATTRACTOR,
        *AGREEMENT_AUXILIARY,
        *A_AN,
        *DETERMINER_NOUN,
        *QUANTIFIER,
        *REFLEXIVE,
        *PRONOUN_CASE,
        *RELATIVE_PRONOUN,
        *AUXILIARY_FORM,
        *CORRELATIVE,
        *COMPARATIVE,
        *WORD_ORDER,
        *INVERSION,
        *ADJECTIVE_POSITION,
        *DEGREE_POSITION,
    ),
)
