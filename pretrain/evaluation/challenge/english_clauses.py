"""English phenomena that reach across clauses: relative clauses, reflexives, gaps, ellipsis. Must not import torch.

The language of the templates is that of `templates.py`; how each group balances itself is said in `english.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

# The verb agrees with the head of the subject, not with the noun of the relative clause that stands before it.
AGREEMENT_RELATIVE = templates_of(
    "agreement_relative",
    likes=(
        "The {person.one} who likes the {thing.many} [{act.s}/{act.base}] every day.",
        "The {person.many} who like the {thing.one} [{act.base}/{act.s}] every day.",
    ),
    object=(
        "The {thing.one} that the {person.many} {handle.past} [is/are] {quality}.",
        "The {thing.many} that the {person.one} {handle.past} [are/is] {quality}.",
    ),
    without_that=(
        "The {thing.one} the {person.many} need [was/were] {quality}.",
        "The {thing.many} the {person.one} needs [were/was] {quality}.",
    ),
    met=(
        "The {person.one} who met the {person2.many} [{act.s}/{act.base}] today.",
        "The {person.many} who met the {person2.one} [{act.base}/{act.s}] today.",
    ),
    part_uses=(
        "The {part.one} that uses the {part2.many} [{operate.s}/{operate.base}] at once.",
        "The {part.many} that use the {part2.one} [{operate.base}/{operate.s}] at once.",
    ),
    knows=(
        "The {person.one} who knows the {person2.many} [has/have] {handle.past} it.",
        "The {person.many} who know the {person2.one} [have/has] {handle.past} it.",
    ),
    whom=(
        "The {person.one} whom the {person2.many} met [does/do] not {act.base}.",
        "The {person.many} whom the {person2.one} met [do/does] not {act.base}.",
    ),
    part_calls=(
        "If the {part.one} which calls the {part2.many} [{operate.s}/{operate.base}], an error is raised.",
        "If the {part.many} which call the {part2.one} [{operate.base}/{operate.s}], an error is raised.",
    ),
    came_with=(
        "The {person.one} who came with the {person2.many} [{handle.s}/{handle.base}] the {thing.one}.",
        "The {person.many} who came with the {person2.one} [{handle.base}/{handle.s}] the {thing.one}.",
    ),
    belongs=(
        "The {thing.one} that belongs to the {person.many} [is/are] {quality}.",
        "The {thing.many} that belong to the {person.one} [are/is] {quality}.",
    ),
)

# A reflexive goes with the subject of its own clause; another person of the other gender stands nearer or higher.
BINDING = templates_of(
    "binding",
    thinks=(
        "The {gendered.he} thinks that the {gendered2.she} {regarded} [herself/himself].",
        "The {gendered.she} thinks that the {gendered2.he} {regarded} [himself/herself].",
    ),
    near=(
        "The {gendered.he} near the {gendered2.she} {regarded} [himself/herself].",
        "The {gendered.she} near the {gendered2.he} {regarded} [herself/himself].",
    ),
    said=(
        "{name.he} said that {name2.she} {regarded} [herself/himself].",
        "{name.she} said that {name2.he} {regarded} [himself/herself].",
    ),
    parent=(
        "{name.he}'s mother {regarded} [herself/himself].",
        "{name.she}'s father {regarded} [himself/herself].",
    ),
    who_met=(
        "The {gendered.he} who met the {gendered2.she} {regarded} [himself/herself].",
        "The {gendered.she} who met the {gendered2.he} {regarded} [herself/himself].",
    ),
    wanted=(
        "The {gendered.he} wanted the {gendered2.she} to see [herself/himself].",
        "The {gendered.she} wanted the {gendered2.he} to see [himself/herself].",
    ),
    before=(
        "Before {name.he} came, {name2.she} {regarded} [herself/himself].",
        "Before {name.she} came, {name2.he} {regarded} [himself/herself].",
    ),
    heard=(
        "The {gendered.he} heard the {gendered2.she} talk to [herself/himself].",
        "The {gendered.she} heard the {gendered2.he} talk to [himself/herself].",
    ),
    after=(
        "After the {gendered.he} left, the {gendered2.she} {regarded} [herself/himself].",
        "After the {gendered.she} left, the {gendered2.he} {regarded} [himself/herself].",
    ),
    told=(
        "{name.he} told the {gendered.she} to look after [herself/himself].",
        "{name.she} told the {gendered.he} to look after [himself/herself].",
    ),
)

# "what" leaves a gap for itself, "that" leaves none: the verbs cannot do without an object.
FILLER_GAP = templates_of(
    "filler_gap",
    know=(
        "We know [what/that] the {person.one} {transitive.past}.",
        "We know [that/what] the {person.one} {transitive.past} the {thing.one}.",
    ),
    clear=(
        "It is clear [what/that] the {person.many} {transitive.past}.",
        "It is clear [that/what] the {person.many} {transitive.past} the {thing.one}.",
    ),
    remember=(
        "Everybody remembers [what/that] the {gendered.he} {transitive.past}.",
        "Everybody remembers [that/what] the {gendered.he} {transitive.past} the {thing.one}.",
    ),
    notice=(
        "Nobody noticed [what/that] {name.she} {transitive.past}.",
        "Nobody noticed [that/what] {name.she} {transitive.past} the {thing.one}.",
    ),
    guess=(
        "We can guess [what/that] the {person.one} will {transitive.base}.",
        "We can guess [that/what] the {person.one} will {transitive.base} the {thing.one}.",
    ),
    thinks=(
        "I know [what/that] the {person.one} thinks the {person2.one} {transitive.past}.",
        "I know [that/what] the {person.one} thinks the {person2.one} {transitive.past} the {thing.one}.",
    ),
    hear=(
        "Did you hear [what/that] the {person.one} {transitive.past}?",
        "Did you hear [that/what] the {person.one} {transitive.past} the {thing.one}?",
    ),
    explained=(
        "The {person.one} explained [what/that] the {person2.one} {transitive.past}.",
        "The {person.one} explained [that/what] the {person2.one} {transitive.past} the {thing.one}.",
    ),
    matter=(
        "It does not matter [what/that] they {transitive.past}.",
        "It does not matter [that/what] they {transitive.past} the {thing.many}.",
    ),
    must=(
        "The {person.one} forgot [what/that] we must {transitive.base}.",
        "The {person.one} forgot [that/what] we must {transitive.base} the {thing.one}.",
    ),
)

# "there" introduces what there is, "it" stands for a clause that follows.
EXPLETIVE = templates_of(
    "expletive",
    were=(
        "[There/It] were two {thing.many} in the garden.",
        "[It/There] was true that two {thing.many} were in the garden.",
    ),
    who=(
        "[There/It] are {person.many} who {act.base} every day.",
        "[It/There] is good that {person.many} {act.base} every day.",
    ),
    seem=(
        "[There/It] seem to be {thing.many} here.",
        "[It/There] seems that {thing.many} are here.",
    ),
    have_been=(
        "[There/It] have been {person.many} in the house.",
        "[It/There] has been said that {person.many} are in the house.",
    ),
    question=(
        "Are [there/it] any {thing.many} on the table?",
        "Is [it/there] possible to {handle.base} the {thing.many} on the table?",
    ),
    today=(
        "Today [there/it] are three {part.many} in the list.",
        "Today [it/there] is easy to {handle.base} the {part.many} in the list.",
    ),
    think=(
        "We think [there/it] were no {thing.many}.",
        "We think [it/there] was hard to {handle.base} the {thing.many}.",
    ),
    exist=(
        "[There/It] exist many {thing.many} of this kind.",
        "[It/There] is hard to {handle.base} {thing.many} of this kind.",
    ),
    weather=(
        "[There/It] were many {person.many} outside that day.",
        "[It/There] rained when the {person.many} were outside that day.",
    ),
    takes=(
        "[There/It] are two ways to {handle.base} the {thing.one}.",
        "[It/There] takes an hour to {handle.base} the {thing.one}.",
    ),
)

# What is left out is taken up by the auxiliary that it needs: do for a verb, be for an adjective.
ELLIPSIS = templates_of(
    "ellipsis",
    too=(
        "The {person.one} {act.s}, and the {person2.one} [does/is] too.",
        "The {person.one} is {temper}, and the {person2.one} [is/does] too.",
    ),
    past=(
        "The {person.one} {handle.past} it, and the {person2.one} [did/was] too.",
        "The {person.one} was {temper}, and the {person2.one} [was/did] too.",
    ),
    plural=(
        "The {person.many} {act.base}, and we [do/are] too.",
        "The {person.many} are {temper}, and we [are/do] too.",
    ),
    but=(
        "The {person.one} does not {act.base}, but the {person2.one} [does/is].",
        "The {person.one} is not {temper}, but the {person2.one} [is/does].",
    ),
    tag_plural=(
        "The {person.many} {act.base} here, [don't/aren't] they?",
        "The {person.many} are {temper}, [aren't/don't] they?",
    ),
    tag_past=(
        "The {gendered.he} {handle.past} the {thing.one}, [didn't/wasn't] he?",
        "The {gendered.he} was {temper}, [wasn't/didn't] he?",
    ),
    than=(
        "The {person.one} {act.s} as much as the {person2.one} [does/is].",
        "The {person.one} is as {temper} as the {person2.one} [is/does].",
    ),
    answer=(
        "Who {handle.past} the {thing.one}? The {person.one} [did/was].",
        "Who was {temper}? The {person.one} [was/did].",
    ),
    so=(
        "The {person.one} {act.s}, and so [does/is] the {person2.one}.",
        "The {person.one} is {temper}, and so [is/does] the {person2.one}.",
    ),
    condition=(
        "If the {part.one} {operate.s}, the {part2.one} [does/is] too.",
        "If the {part.one} is {quality}, the {part2.one} [is/does] too.",
    ),
)
