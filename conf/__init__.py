"""The configuration: Hydra's YAML groups, and the small harness every command shares.

The YAML files lie in this package, so that they travel with an installed wheel. The modules here give each command
its options, its checks and its error sentences (`command`, `checks`), its files (`files`), its progress line
(`progress`) and its provenance (`provenance`). They must never import `pipeline`, `pretrain` or `slurm`.
"""
