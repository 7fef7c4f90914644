"""The Chinese grammar of minimal pairs (simplified characters): 13 phenomena. Must not import torch.

How each group balances itself, so that a scorer blind to context gets exactly one half, by word and by character:

- most phenomena: the two patterns of a template take the same two words in opposite roles (`[本/辆]` before a book,
  `[辆/本]` before a car), so that each word is right once and wrong once, and with it each of its characters;
- place_position, time_position, relative_clause: good and bad hold the same words, so any bag of them ties, and what
  stands too late in one pattern stands too early in the other.
"""

from pretrain.evaluation.challenge import chinese_order, chinese_particles, chinese_verbs
from pretrain.evaluation.challenge.chinese_words import CHINESE_WORDS
from pretrain.evaluation.challenge.templates import Grammar

CHINESE = Grammar(
    language="chinese",
    version=1,
    words=CHINESE_WORDS,
    templates=(
        *chinese_particles.CLASSIFIER,
        *chinese_verbs.ASPECT,
        *chinese_verbs.NEGATION,
        *chinese_verbs.POTENTIAL,
        *chinese_verbs.BA_BEI,
        *chinese_order.PLACE_POSITION,
        *chinese_order.TIME_POSITION,
        *chinese_order.RELATIVE_CLAUSE,
        *chinese_particles.COMPARISON,
        *chinese_particles.QUESTION,
        *chinese_particles.DE_PARTICLE,
        *chinese_particles.PLURAL,
        *chinese_particles.CONNECTIVE,
    ),
    spaced=False,
)
