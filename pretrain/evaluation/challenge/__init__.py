"""Challenge sets built from templates: seeded, pure, without a model. Must not import torch.

`templates` is the small language templates are written in, `english` and `chinese` (with `english_*`, `chinese_*`) the
grammars, `builder` turns a grammar and a seed into items. Another language is another grammar, nothing more.
"""
