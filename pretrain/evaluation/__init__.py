"""Scores of a checkpoint: tasks, fine-tuning, zero-shot scoring, metrics and statistics.

The pieces point downward: a suite knows tasks and runs; runs know fine-tuning and scoring; metrics, statistics and the
challenge builders are pure and know nothing of models. Nothing here imports Beam.
"""
