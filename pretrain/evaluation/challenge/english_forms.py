"""English phenomena of form: case, relative pronouns, verb forms, correlatives, comparison. Must not import torch.

The language of the templates is that of `templates.py`; how each group balances itself is said in `english.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

PRONOUN_CASE = templates_of(
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

RELATIVE_PRONOUN = templates_of(
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

AUXILIARY_FORM = templates_of(
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

CORRELATIVE = templates_of(
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
        "This must be either a {consonant_noun} [or/and] an {vowel_noun}.",
        "This must be both a {consonant_noun} [and/or] an {vowel_noun}.",
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

COMPARATIVE = templates_of(
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
