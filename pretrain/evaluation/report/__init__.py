"""The report of an evaluation or of a whole chain: one page, made from the files that the steps left.

`facts` gathers what is known of a chain, `score_facts`, `comparison`, `pairs` and `worst` what is known of an
evaluation; `charts` and `score_charts` draw, `page` renders the templates beside it. Must not import torch.
"""
