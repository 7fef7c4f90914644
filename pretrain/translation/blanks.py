"""The text of a hypothesis from which noise has taken words: each [MASK] becomes a `pipeline.blanks.BLANK`.

No search and no file is known here.
"""

from tokenizers import Tokenizer

from pipeline.blanks import BLANK, without_blanks
from pretrain.decoding.vocabulary import Vocabulary


def blank_name(tokenizer: Tokenizer, vocabulary: Vocabulary) -> str:
    """What is shown in a text in the place of a blank, such as "[MASK]"."""
    name: str = tokenizer.decode([vocabulary.blank_id], skip_special_tokens=False)
    return name.strip()


def text_with_blanks(tokenizer: Tokenizer, vocabulary: Vocabulary, tokens: list[int]) -> str:
    """The text of tokens, with a BLANK for each [MASK] and without other special tokens."""
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    kept = [token for token in tokens if token == vocabulary.blank_id or token not in special]
    name = blank_name(tokenizer, vocabulary)

    def decoded(ids: list[int]) -> str:
        return without_blanks(tokenizer.decode(ids, skip_special_tokens=False))

    # The model may have written the characters of the name itself: before a blank stand as many names as before its id.
    blanks = {decoded(kept[:place]).count(name) for place, token in enumerate(kept) if token == vocabulary.blank_id}
    first, *others = decoded(kept).split(name)
    return first + "".join((BLANK if number in blanks else name) + part for number, part in enumerate(others))
