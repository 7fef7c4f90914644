"""English words by kind, with the forms that templates use. Must not import anything but the template language.

The words are of two worlds, technical documentation and everyday life, so that a model of either corpus knows many of
them. Every open kind has at least 30 words. Kinds are chosen by what a sentence needs (persons act on things), so that
pairs differ in grammar and not in sense.
"""

from pretrain.evaluation.challenge.templates import Word

VOWELS = "aeiou"


def s_form(word: str) -> str:
    """Regular plural of a noun, or third person of a verb (class -> classes, library -> libraries, key -> keys)."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def past(verb: str) -> str:
    """Regular past of a verb (open -> opened, move -> moved, copy -> copied); it doubles no consonant."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return verb + "ed"


def ing(verb: str) -> str:
    """Regular present participle of a verb (push -> pushing, move -> moving, carry -> carrying); doubles nothing."""
    return (verb[:-1] if verb.endswith("e") else verb) + "ing"


def _nouns(words: str) -> tuple[Word, ...]:
    return tuple({"one": noun, "many": s_form(noun)} for noun in words.split())


def _verbs(words: str) -> tuple[Word, ...]:
    return tuple({"base": verb, "s": s_form(verb)} for verb in words.split())


def verbs_with_past(words: str) -> tuple[Word, ...]:
    """Regular verbs in four forms: base, s, past, ing."""
    return tuple({"base": verb, "s": s_form(verb), "past": past(verb), "ing": ing(verb)} for verb in words.split())


def single(words: str) -> tuple[Word, ...]:
    """Words with one form."""
    return tuple({"": word} for word in words.split())


def _gendered(pairs: str, **irregular: str) -> tuple[Word, ...]:
    split = (pair.split("/") for pair in pairs.split())
    return tuple({"he": he, "she": she, "they": irregular.get(he, s_form(he))} for he, she in split)


ENGLISH_WORDS: dict[str, tuple[Word, ...]] = {
    # Persons who can do something on purpose; no words that are also names of programs (reader, driver, client).
    "person": _nouns(
        "engineer teacher developer user doctor student farmer player friend sailor soldier lawyer singer visitor "
        "customer owner scientist programmer officer expert guest leader maintainer designer neighbor reviewer nurse "
        "baker pilot poet tourist judge artist"
    ),
    # Things that a person can make, move, look at or talk about.
    "thing": _nouns(
        "file table window letter machine book model module page number message test tool package system script "
        "document door picture card bottle road bridge garden house cup clock project server database record report "
        "folder library box map"
    ),
    # What acts on its own in technical prose, for agreement in documents about code.
    "part": _nouns(
        "function method class object value key list string server process thread handler parser module client driver "
        "compiler loader decoder encoder option field argument parameter variable iterator generator buffer cache "
        "worker wrapper filter node token"
    ),
    # Nouns that cannot be counted.
    "mass": single(
        "water money time music information sugar rice bread milk food space memory traffic furniture advice evidence "
        "equipment energy help sand snow rain salt butter coffee tea wine oil knowledge progress software storage "
        "documentation noise luck patience damage attention"
    ),
    # Verbs without an object, none with a past like its base (the engineer read today).
    "act": _verbs(
        "wait work talk walk start listen play travel change help answer laugh learn rest smile move return stay stop "
        "turn live fail speak sing sleep run swim write sit arrive dance cook"
    ),
    # What parts of a program do, without an object.
    "operate": _verbs(
        "work start stop fail return change run wait exist end close open finish begin break move continue "
        "restart terminate crash respond connect exit block grow shrink raise complete expire happen succeed load"
    ),
    # Verbs with an object, all with a regular past; no base is an adjective as well (to be opened / to be open).
    "handle": verbs_with_past(
        "push lock check fill move watch follow change create load return remove update print paint count collect "
        "copy share test repair order mention describe visit carry save start finish cover wash replace accept "
        "deliver install"
    ),
    # Past forms that take a person, himself included, as their object.
    "regarded": single(
        "blamed described defended helped trusted watched admired prepared protected praised criticized introduced "
        "taught asked hurt saw surprised accused believed calmed corrected disliked forgave hated hid loved pitied "
        "presented punished respected saved understood"
    ),
    # Adjectives for things, short ones.
    "quality": single(
        "small large new old long short good bad simple heavy light strong weak clean empty full useful important "
        "different special quiet bright dark cheap common clear complete modern careful dirty slow big"
    ),
    # Adjectives compared with "more".
    "comparable": single(
        "useful important expensive difficult common complex popular famous efficient reliable flexible convenient "
        "specific general accurate powerful readable robust elegant modern careful helpful detailed dangerous "
        "beautiful interesting valuable sensitive natural practical serious successful"
    ),
    "consonant_noun": single(
        "file table window letter machine book model page number message test tool package system script door "
        "picture card bottle road bridge garden house cup clock list string value method class key "
        "doctor teacher dog"
    ),
    "vowel_noun": single(
        "object array example option error index argument image element attribute exception integer instance item "
        "input output event address island apple orange engine artist author editor engineer animal umbrella "
        "elephant uncle idea answer office actor accident egg"
    ),
    "consonant_adjective": single(
        "small large new long short good bad simple heavy light strong weak clean full useful different special "
        "quiet bright dark cheap common clear complete public famous modern careful possible single valid given"
    ),
    "vowel_adjective": single(
        "old empty important easy open early optional internal external abstract absolute unknown active exact "
        "initial additional alternative arbitrary invalid original interesting efficient expensive ordinary official "
        "ugly even odd equal explicit implicit idle honest"
    ),
    # No noun that is used of both (an actor, a host or a hero may be a woman).
    "gendered": _gendered(
        "man/woman boy/girl king/queen father/mother brother/sister son/daughter uncle/aunt husband/wife "
        "prince/princess waiter/waitress grandfather/grandmother nephew/niece gentleman/lady "
        "policeman/policewoman businessman/businesswoman monk/nun wizard/witch "
        "duke/duchess groom/bride grandson/granddaughter chairman/chairwoman stepfather/stepmother "
        "salesman/saleswoman widower/widow cowboy/cowgirl godfather/godmother emperor/empress "
        "landlord/landlady boyfriend/girlfriend stepson/stepdaughter schoolboy/schoolgirl baron/baroness",
        man="men",
        gentleman="gentlemen",
        policeman="policemen",
        businessman="businessmen",
        chairman="chairmen",
        salesman="salesmen",
    ),
    "name": _gendered(
        "John/Mary James/Anna Robert/Susan Michael/Linda William/Sarah David/Emma Richard/Laura Thomas/Julia "
        "Charles/Alice Daniel/Helen Matthew/Jane Anthony/Ruth Mark/Karen Paul/Nancy Steven/Lisa Andrew/Sandra "
        "George/Carol Edward/Sharon Brian/Michelle Peter/Amanda Kevin/Melissa Jason/Deborah Henry/Rebecca "
        "Frank/Cynthia Jack/Kathleen Arthur/Amy Walter/Angela Harry/Diana Roger/Martha Albert/Rose Philip/Grace "
        "Simon/Lucy"
    ),
    "pronoun": (
        {"subject": "he", "object": "him"},
        {"subject": "they", "object": "them"},
        {"subject": "we", "object": "us"},
        {"subject": "she", "object": "her"},
        {"subject": "I", "object": "me"},
    ),
}

CLOSED_KINDS: dict[str, str] = {
    "pronoun": "English has five personal pronouns whose subject and object forms differ ('you' and 'it' do not)",
}
