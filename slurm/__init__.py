"""Chains of commands: what has to run, in which order, and where it runs.

A chain file (`conf/chain/*.yaml`) lists steps, each one a command that a user could type. `slurm.submit` works out
which steps are complete and hands the others to a cluster (`slurm.local` for this machine). Must not import `pipeline`
or `pretrain`: a step is run as a command, never called.
"""
