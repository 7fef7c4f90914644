"""From shards to checkpoints to scores: models, the trainer, evaluation, export.

Nothing below this package imports apache_beam; of `pipeline` only `pipeline.shards` and `pipeline.tokenizer` are
known here.
"""
