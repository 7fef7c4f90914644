"""What a convolutional encoder-decoder looks like, independent of its vocabulary, and how far it sees.

Pure: no tensor and no module is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conf.errors import InputError
from pretrain.models.attention import Kernel
from pretrain.models.languages import check_languages, language_id


def receptive_field(kernels: Iterable[int]) -> int:
    """How many tokens a state depends on after a stack of convolutions: 1 + the sum of (k - 1) over their kernels.

    An encoder sees half of the others to each side of a token, a decoder only those before it.
    """
    return 1 + sum(kernel - 1 for kernel in kernels)


@dataclass(frozen=True)
class ConvSeq2SeqConfig:
    """The shape and options of a convolutional encoder-decoder (Gehring et al. 2017); the keys of
    `conf/model/conv_s2s_*.yaml` are these fields.

    `encoder_layers` and `decoder_layers` are runs of equal layers from the bottom up, each [count, width, kernel]: a
    convolution over `kernel` tokens with 2 * width outputs, of which the gate leaves `width`. Where the width changes,
    the residual is projected. Every decoder layer attends to the source.

    `embedding_size` is the width of words and positions, of the encoder's result, and of attention; `output_size` that
    of the state that the output matrix reads. `share_embeddings`: one table for the words of both sides and the
    output, which then has no weight normalisation and needs output_size = embedding_size; false, as published: three.

    `languages` names the languages with an embedding, added at every position of its side; ids count in this order.
    `dropout` acts on the embeddings, on what every convolution reads, and on what the output matrix reads; the
    deviation of initial weights depends on it. `max_positions` limits the positions of either side.
    `initializer_range` is the initial deviation of the embeddings. `attention_kernel` is a choice of speed, not of the
    function computed.
    """

    embedding_size: int
    output_size: int
    encoder_layers: Sequence[Sequence[int]]
    decoder_layers: Sequence[Sequence[int]]
    share_embeddings: bool = False
    languages: Sequence[str] = ()
    max_positions: int = 1024
    dropout: float = 0.0
    initializer_range: float = 0.1
    attention_kernel: Kernel = "auto"

    def __post_init__(self) -> None:
        """Raise InputError naming the first option that makes no sense."""
        for name in ("encoder_layers", "decoder_layers"):
            object.__setattr__(self, name, _runs(name, getattr(self, name)))
        object.__setattr__(self, "languages", tuple(self.languages))
        for name in ("embedding_size", "output_size", "max_positions"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} must be at least 1, but is {getattr(self, name)}")
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"model.dropout must be in [0, 1), but is {self.dropout}")
        if not self.initializer_range > 0.0:
            raise InputError(f"model.initializer_range must be above 0, but is {self.initializer_range}")
        if self.attention_kernel not in ("auto", "sdpa", "matmul", "reference"):
            raise InputError(
                "model.attention_kernel of a convolutional model must be one of auto, sdpa, matmul, reference (its one "
                f"head is as wide as the embedding, too wide for varlen), but is {self.attention_kernel!r}"
            )
        if self.share_embeddings and self.output_size != self.embedding_size:
            raise InputError(
                "model.share_embeddings=true needs model.output_size equal to model.embedding_size = "
                f"{self.embedding_size}, but it is {self.output_size}"
            )
        check_languages(self.languages)

    @property
    def encoder_convolutions(self) -> list[tuple[int, int]]:
        """(width, kernel) of each encoder layer from the bottom up."""
        return _layers(self.encoder_layers)

    @property
    def decoder_convolutions(self) -> list[tuple[int, int]]:
        """(width, kernel) of each decoder layer from the bottom up."""
        return _layers(self.decoder_layers)

    @property
    def receptive_fields(self) -> tuple[int, int]:
        """How many tokens of the source one state of the encoder depends on, and of the target one of the decoder.

        Through attention a decoder's state depends on the whole source besides.
        """
        source, target = (
            receptive_field(kernel for _, kernel in layers)
            for layers in (self.encoder_convolutions, self.decoder_convolutions)
        )
        return source, target

    def language_id(self, name: str | None, side: str) -> int | None:
        """The id of a language by its name (`languages.language_id`)."""
        return language_id(self.languages, name, side)


def _runs(name: str, given: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    """`given` as tuples, so that a list from a file is the same model."""
    runs = []
    for run in given:
        numbers = tuple(run) if isinstance(run, list | tuple) else ()
        if len(numbers) != 3 or not all(type(number) is int and number >= 1 for number in numbers):
            raise InputError(
                f"model.{name} must be a list of [count, width, kernel], whole numbers of at least 1, but holds {run!r}"
            )
        runs.append(numbers)
    if not runs:
        raise InputError(f"model.{name} must have at least one run of layers [count, width, kernel], but is empty")
    return tuple(runs)


def _layers(runs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [(width, kernel) for count, width, kernel in runs for _ in range(count)]
