"""The jobs of the pipeline, one a module: what `python -m pipeline job=NAME` runs.

A job is a dataclass of its options with `run(corpus, output, tokenizer, runner)`. It plans the ranges of the corpus,
lets a runner work on each, checks that every range was done, and writes its manifest last.
"""
