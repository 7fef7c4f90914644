"""Zero-shot scores of items under any language model: one number for each option. Knows no task file.

Encoders give pseudo-log-likelihoods (`scoring_masked`), encoder-decoders the likelihood of their decoder
(`scoring_decoder`), of the same parts of the same texts and with the same normalisations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.evaluation.scoring_decoder import DECODER_INPUTS, SOURCES, DecoderScoring, decoder_sums
from pretrain.evaluation.scoring_masked import VARIANTS, Variant, hidden_positions, masked_sums
from pretrain.evaluation.scoring_texts import Passage, TokenizedText, fit_together, shown, tokenize, tokenize_passages
from pretrain.evaluation.tasks.definition import ChoiceItem, PairItem
from pretrain.models.language_model import LanguageModel
from pretrain.models.masked_lm import MaskedLanguageModel

__all__ = [
    "NORMALISATIONS",
    "PARTS",
    "SCORING_VERSION",
    "VARIANTS",
    "DecoderScoring",
    "FittedItem",
    "Normalisation",
    "Part",
    "Scoring",
    "Variant",
    "fit_items",
    "hidden_positions",
    "pseudo_log_likelihoods",
    "score_items",
    "score_texts",
    "tokenize",
]

SCORING_VERSION = 1

Part = Literal["whole", "option", "suffix"]
Normalisation = Literal["none", "per_token", "per_character", "mutual_information"]
TooLong = Literal["refuse", "cut", "count"]
PARTS: tuple[Part, ...] = ("whole", "option", "suffix")
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "per_token", "per_character", "mutual_information")
TOO_LONG: tuple[TooLong, ...] = ("refuse", "cut", "count")


@dataclass(frozen=True)
class Scoring:
    """How an option becomes a number.

    `part`: what is scored of the text that an option makes: all of it (`whole`), the `option` given the rest, or the
    `suffix`, what follows the option, given all before it (partial evaluation: Trinh and Le 2018). Null: the whole of a
    minimal pair, the option of a choice.

    `variant` is that of the pseudo-log-likelihood, for encoders; `decoder` says how encoder-decoders are asked.

    `normalisation`: the sum of the scored tokens' log-probabilities (`none`), divided by their number (`per_token`) or
    that of their characters (`per_character`), or the sum less the option's without its context, where `domain_premise`
    stands for all of it (`mutual_information`: Holtzman et al. 2021, "Surface Form Competition", equation 3, in
    logarithms). The last is for part=option.

    `too_long`: what becomes of an item that the model cannot hold. `refuse`: an error. `cut`: its context is cut and
    such items are counted; one whose answer alone is too long is an error. `count`: as `cut`, but such an item is not
    scored, counts as wrong, and is counted.

    Raises InputError naming an option that makes no sense.
    """

    part: Part | None = None
    variant: Variant = "within_word"
    normalisation: Normalisation = "none"
    domain_premise: str = ""
    decoder: DecoderScoring = field(default_factory=DecoderScoring)
    too_long: TooLong = "refuse"

    def __post_init__(self) -> None:
        """Check the options."""
        for name, value, allowed in (
            ("part", self.part, (None, *PARTS)),
            ("variant", self.variant, VARIANTS),
            ("normalisation", self.normalisation, NORMALISATIONS),
            ("too_long", self.too_long, TOO_LONG),
            ("decoder.source", self.decoder.source, SOURCES),
            ("decoder.decoder_input", self.decoder.decoder_input, DECODER_INPUTS),
        ):
            if value not in allowed:
                known = ", ".join("null" if choice is None else choice for choice in allowed)
                raise InputError(f"'{name}' must be one of {known}, but is '{value}'")
        if self.domain_premise and self.normalisation != "mutual_information":
            raise InputError("'domain_premise' is used by normalisation=mutual_information only: leave it empty")
        if self.normalisation == "mutual_information" and self.part not in (None, "option"):
            raise InputError(f"normalisation=mutual_information needs part=option, but part is {self.part}")

    def part_of(self, item: ChoiceItem | PairItem) -> Part:
        """Which part of an item's texts is scored. Raises InputError where a minimal pair has no such part."""
        if isinstance(item, ChoiceItem):
            return self.part or "option"
        if self.part not in (None, "whole") or self.normalisation == "mutual_information":
            raise InputError(
                "a minimal pair is scored whole: set part=whole and a normalisation other than mutual_information"
            )
        return "whole"

    def passages(self, item: ChoiceItem | PairItem) -> list[Passage]:
        """The text of each option with the part to score; of a minimal pair the good text first."""
        if isinstance(item, PairItem):
            self.part_of(item)
            return [Passage.whole(item.good), Passage.whole(item.bad)]
        part, passages = self.part_of(item), []
        for option in item.options:
            text = item.prefix + option + item.suffix
            begin, end = len(item.prefix), len(item.prefix) + len(option)
            if part == "whole":
                passages.append(Passage.whole(text))
            elif part == "option":
                passages.append(Passage(text, (begin, end), (begin, end)))
            else:
                passages.append(Passage(text, (end, len(text)), (begin, len(text))))
        return passages

    def without_context(self, item: ChoiceItem) -> list[Passage]:
        """The options by themselves, behind `domain_premise`."""
        begin = len(self.domain_premise)
        texts = [self.domain_premise + option for option in item.options]
        return [Passage(text, (begin, len(text)), (0, len(text))) for text in texts]

    def name_for(self, model: LanguageModel, part: Part) -> str:
        """What is scored, for a signature: the kind of score and every option that changes it for such a model.

        `part` is that of the items (`part_of`).
        """
        if isinstance(model, MaskedLanguageModel):
            kind = f"pll.{self.variant}"
        else:
            asked = self.decoder
            masks = "" if asked.cross_attention_to_masks else ".masks_hidden"
            language = "" if asked.language is None else f".{asked.language}"
            kind = f"likelihood.{asked.source}.{asked.decoder_input}{masks}{language}"
        premise = f"({self.domain_premise!r})" if self.normalisation == "mutual_information" else ""
        return f"{kind}.{part}.{self.normalisation}{premise}"


@dataclass(frozen=True)
class FittedItem:
    """An item's options as tokens, with `cut` tokens of context fewer than they had.

    `options` is None for an item that is not scored, since not even an answer fits. `alone` are the options without
    context, for mutual information.
    """

    options: tuple[TokenizedText, ...] | None
    alone: tuple[TokenizedText, ...] = ()
    characters: tuple[int, ...] = ()
    cut: int = 0


def fit_items(
    tokenizer: Tokenizer, items: Sequence[ChoiceItem | PairItem], scoring: Scoring, max_positions: int
) -> list[FittedItem]:
    """Items as tokens, cut to what the model holds; everything that cannot be scored is refused here.

    Raises:
        InputError: a part without a token, an item too long for the model as `Scoring.too_long` has it, or a part that
            an item does not have.
    """
    passages = [scoring.passages(item) for item in items]
    flat = iter(tokenize_passages(tokenizer, [passage for group in passages for passage in group]))
    alone: list[list[Passage]] = [[] for _ in items]
    if scoring.normalisation == "mutual_information":
        alone = [scoring.without_context(item) for item in items if isinstance(item, ChoiceItem)]
    flat_alone = iter(tokenize_passages(tokenizer, [passage for group in alone for passage in group]))
    fitted = []
    for item, group, bare in zip(items, passages, alone, strict=True):
        options = [next(flat) for _ in group]
        without = [next(flat_alone) for _ in bare]
        longest = max(len(option.ids) for option in options)
        if longest > max_positions and scoring.too_long == "refuse":
            raise _too_long(
                item, options, max_positions, "use a model with more positions, or set too_long to cut or count"
            )
        found = fit_together(options, max_positions)
        if found is None or any(len(option.ids) > max_positions for option in without):
            if scoring.too_long != "count":
                advice = "what is scored is never cut, so use a model with more positions, or set too_long=count"
                raise _too_long(item, options, max_positions, advice)
            fitted.append(FittedItem(None))
            continue
        characters = tuple(passage.num_characters for passage in group)
        fitted.append(FittedItem(tuple(found[0]), tuple(without), characters, found[1]))
    return fitted


def _too_long(
    item: ChoiceItem | PairItem, options: Sequence[TokenizedText], max_positions: int, advice: str
) -> InputError:
    longest = max(options, key=lambda option: len(option.ids))
    return InputError(
        f"item '{item.id}' has {len(longest.ids)} tokens with [CLS] and [SEP] ({shown(longest.text)}), but the model "
        f"has {max_positions} positions: {advice}"
    )


def score_items(
    model: LanguageModel,
    tokenizer: Tokenizer,
    items: Sequence[ChoiceItem | PairItem],
    scoring: Scoring,
    tokens_per_batch: int | None = None,
) -> list[list[float] | None]:
    """For each item one number an option, the higher the more likely; of a minimal pair good and bad.

    None for an item that is not scored (`Scoring.too_long`). Numbers do not depend on the batches or on the other
    items, up to the rounding of fp32 (tested to 1e-5).

    Args:
        model: an encoder or an encoder-decoder, in fp32.
        tokenizer: the model's own.
        items: any number; whatever texts they share is scored once.
        scoring: what is scored and how.
        tokens_per_batch: about how many tokens go through the model at a time; None: as is fast.

    Raises:
        InputError: as `fit_items`; a score that is no finite number; a language that the model lacks or needs.
    """
    fitted = fit_items(tokenizer, items, scoring, model.config.max_positions)
    texts: dict[TokenizedText, int] = {}
    for item in fitted:
        for text in (*(item.options or ()), *item.alone):
            texts.setdefault(text, len(texts))
    sums = _sums(model, tokenizer, list(texts), scoring, tokens_per_batch)
    scores: list[list[float] | None] = []
    for item in fitted:
        if item.options is None:
            scores.append(None)
            continue
        values = np.array([sums[texts[option]] for option in item.options])
        if scoring.normalisation == "per_token":
            values = values / [option.num_tokens for option in item.options]
        elif scoring.normalisation == "per_character":
            values = values / item.characters
        elif scoring.normalisation == "mutual_information":
            values = values - [sums[texts[option]] for option in item.alone]
        scores.append(values.tolist())
    return scores


def _sums(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[TokenizedText],
    scoring: Scoring,
    tokens_per_batch: int | None,
) -> NDArray[np.float64]:
    """Summed log-probabilities of the texts' scored parts. Raises InputError for one that is not finite."""
    mask_id = special_ids(tokenizer)["mask"]
    batch = {} if tokens_per_batch is None else {"tokens_per_batch": tokens_per_batch}
    if isinstance(model, MaskedLanguageModel):
        sums = masked_sums(model, texts, mask_id, scoring.variant, **batch)
    else:
        sums = decoder_sums(model, texts, mask_id, scoring.decoder, **batch)
    broken = np.flatnonzero(~np.isfinite(sums))
    if len(broken):
        raise InputError(
            f"the score of {shown(texts[broken[0]].text)} is {sums[broken[0]]}: the checkpoint's weights give no "
            "finite probabilities, so choose an earlier checkpoint"
        )
    return sums


def score_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    scoring: Scoring,
    tokens_per_batch: int | None = None,
) -> NDArray[np.float64]:
    """Scores of whole texts, in nats: an encoder's pseudo-log-likelihoods, an encoder-decoder's likelihoods.

    Args:
        model: in fp32.
        tokenizer: the model's own.
        texts: any number; equal ones are scored once.
        scoring: of which the part is the whole.
        tokens_per_batch: about how many tokens go through the model at a time; None: as is fast.

    Raises:
        InputError: another part, a text that cannot be scored, or a score that is not finite.
    """
    if scoring.part not in (None, "whole") or scoring.normalisation == "mutual_information":
        raise InputError("a text is scored whole: set part=whole and a normalisation other than mutual_information")
    distinct = list(dict.fromkeys(texts))
    tokenized = tokenize(tokenizer, distinct, model.config.max_positions)
    sums = _sums(model, tokenizer, tokenized, scoring, tokens_per_batch)
    scores = {}
    for text, value in zip(tokenized, sums.tolist(), strict=True):
        divisor = {"none": 1, "per_token": text.num_tokens, "per_character": len(text.text)}[scoring.normalisation]
        scores[text.text] = value / divisor
    return np.array([scores[text] for text in texts], dtype=np.float64)


def pseudo_log_likelihoods(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    variant: Variant = "within_word",
    normalisation: Normalisation = "none",
    tokens_per_batch: int | None = None,
) -> NDArray[np.float64]:
    """`score_texts` with the options of an encoder."""
    return score_texts(model, tokenizer, texts, Scoring("whole", variant, normalisation), tokens_per_batch)
