"""English verbs and adjectives by what must follow them: an object, an infinitive. Must not import torch.

Each list holds only words that refuse what the list opposite asks for, so that a pair has one good side.
"""

from pretrain.evaluation.challenge.english_words import single, verbs_with_past
from pretrain.evaluation.challenge.templates import Word

ENGLISH_FRAMES: dict[str, tuple[Word, ...]] = {
    # Verbs that cannot be without an object, whatever it is that a person does with a thing.
    "transitive": verbs_with_past(
        "mention describe replace remove own discuss enjoy ignore avoid reject damage destroy acquire possess admire "
        "discard abandon retrieve fetch seize conceal grasp preserve crave cherish utilize confiscate overlook expose "
        "misplace demolish ruin depict unveil"
    ),
    # Verbs that never have an object.
    "intransitive": verbs_with_past(
        "arrive sneeze cough yawn blush giggle shiver tremble hesitate emerge snore sigh doze chuckle frown stumble "
        "faint vanish disappear flinch wince linger smile laugh cry limp loiter gasp shudder swoon falter persist "
        "perspire squirm cower apologize meditate intervene"
    ),
    # Verbs followed by "to do", never by "doing", not even by one that says how it was done (she qualified running).
    "hoping": verbs_with_past(
        "hope want decide promise refuse agree offer expect wish pretend threaten long claim aspire vow consent yearn "
        "resolve hasten pledge tend happen endeavor presume condescend care deign elect itch ache seem"
    ),
    # Verbs followed by "doing", never by "to do".
    "enjoying": verbs_with_past(
        "enjoy avoid mind suggest admit deny consider imagine risk resist recommend postpone miss discuss recall "
        "appreciate anticipate tolerate resent contemplate detest acknowledge oppose favor dislike endorse "
        "justify despise condone envisage prohibit"
    ),
    # What a person can be.
    "temper": single(
        "happy tired angry hungry lonely friendly polite clever careful honest brave lazy nervous patient proud quiet "
        "rich poor strong young famous busy sad shy wise kind gentle curious cheerful serious generous"
    ),
    # What a person can be, with "of" and never "to".
    "of_adjective": single(
        "afraid aware proud tired fond jealous ashamed certain envious ignorant scared conscious terrified weary sick "
        "convinced mindful wary unaware distrustful frightened worthy unworthy deserving undeserving sure unsure "
        "uncertain possessive heedless desirous cognizant neglectful"
    ),
    # What a person can be, with "to" and never "of".
    "to_adjective": single(
        "similar close accustomed addicted committed dedicated devoted indifferent immune inferior superior identical "
        "loyal opposed vulnerable attached attracted faithful responsive receptive hostile connected exposed linked "
        "resistant allergic adjacent equal obedient sympathetic unfaithful disloyal averse related unrelated"
    ),
}
