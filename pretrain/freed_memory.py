"""Memory that a process frees is kept for its next step, instead of being handed to the kernel and cleared anew.

A training step on a CPU allocates and frees the same large tensors over and over. glibc gives each of them back to the
kernel, which must clear every page again at the next step: 5 % to a quarter of a small model's step. Must not import
torch or anything of the project.
"""

import ctypes

# malloc.h; a limit of no mappings and of 2 GiB - 1 at the end of the heap, the most that an int says.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have this process keep what it frees; return whether its C library can (glibc: yes).

    Threads that are running already and those to come are included. What is kept counts as in use for the system.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
