"""Translating a corpus of any size: what is read (`inputs.py`), how a chunk of it is translated (`translator.py`), what
is written and how it is kept (`output.py`), and the work of one rank (`work.py`).
"""
