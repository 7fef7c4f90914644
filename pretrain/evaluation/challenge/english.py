"""The English grammar of minimal pairs: 26 phenomena. Must not import torch.

How each group balances itself, so that a scorer blind to context gets exactly one half:

- most phenomena: the two patterns of a template take the same two words in opposite roles (`[waits/wait]` after a
  singular, `[wait/waits]` after a plural), with the same fillers, so that each word is right once and wrong once;
- word_order: good and bad hold the same words, so any bag of words ties (a tie counts one half); besides, in each group
  every content word that is moved is moved to the left once and to the right once, so that no liking for early or
  late adjectives, nouns or verbs helps;
- inversion, adjective_position, degree_position: ties for a bag of words as well, and each order is good in one
  pattern and bad in the other.
"""

from pretrain.evaluation.challenge import (
    english_agreement,
    english_clauses,
    english_forms,
    english_order,
    english_selection,
)
from pretrain.evaluation.challenge.english_frames import ENGLISH_FRAMES
from pretrain.evaluation.challenge.english_words import CLOSED_KINDS, ENGLISH_WORDS
from pretrain.evaluation.challenge.templates import Grammar

ENGLISH = Grammar(
    language="english",
    version=2,
    words={**ENGLISH_WORDS, **ENGLISH_FRAMES},
    closed=CLOSED_KINDS,
    templates=(
        *english_agreement.AGREEMENT_SIMPLE,
        *english_agreement.AGREEMENT_ATTRACTOR,
        *english_agreement.AGREEMENT_AUXILIARY,
        *english_agreement.A_AN,
        *english_agreement.DETERMINER_NOUN,
        *english_agreement.QUANTIFIER,
        *english_agreement.REFLEXIVE,
        *english_forms.PRONOUN_CASE,
        *english_forms.RELATIVE_PRONOUN,
        *english_forms.AUXILIARY_FORM,
        *english_forms.CORRELATIVE,
        *english_forms.COMPARATIVE,
        *english_order.WORD_ORDER,
        *english_order.INVERSION,
        *english_order.ADJECTIVE_POSITION,
        *english_order.DEGREE_POSITION,
        *english_clauses.AGREEMENT_RELATIVE,
        *english_clauses.BINDING,
        *english_clauses.FILLER_GAP,
        *english_clauses.EXPLETIVE,
        *english_clauses.ELLIPSIS,
        *english_selection.POLARITY,
        *english_selection.TENSE_TIME,
        *english_selection.TRANSITIVITY,
        *english_selection.COMPLEMENT_FORM,
        *english_selection.PREPOSITION,
    ),
)
