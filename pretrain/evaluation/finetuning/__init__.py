"""Fine-tuning of one model on one task with one seed: recipe, encoding, batches, heads, the loop.

Knows no file, no configuration, no other run: `tasks/finetuned.py` turns it into jobs and scores.
"""
