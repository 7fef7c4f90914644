"""Corpora to token shards: reading, cleaning, deduplication, tokenizing, packing. Must never import torch."""
