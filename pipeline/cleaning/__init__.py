"""What is done to a text before it is used: one step a file, each a pure function `str -> str` or `-> Dropped`.

A step never sees another document, so a document's fate does not depend on its neighbours or on the runner. Must
import neither apache_beam nor torch.
"""
