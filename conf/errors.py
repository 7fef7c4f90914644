"""The one exception that stands for bad input. Must not import anything of the project."""


class InputError(Exception):
    """Something the user gave cannot be used.

    The message is one clear sentence: what was expected, what was found, where (file, line, field, option) and what to
    do. Every command prints it as `error: <sentence>` and exits with status 2, without a traceback.
    """
