"""Decoding: an encoder-decoder and source sentences -> target sentences with scores.

`search.py` is the way in. A search (`beam.py`, `sampling.py`, `noised.py`) knows a model by `incremental.py` only; what
bounds its outputs is in `constraints.py`, what it must know of the tokens in `vocabulary.py`.
"""
