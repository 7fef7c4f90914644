"""Small data sets of our own, written in the layouts of the originals."""

import json

from pretrain.evaluation.sources.files import TaskFiles


def write(folder, **files):
    """Files by name (`__` stands for the separator of folders): a text, a list of objects for jsonl, or bytes."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return TaskFiles(folder)


def table(*rows):
    """Tab-separated rows."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def named(definition, items):
    """Labels by name."""
    return [None if item.label is None else definition.labels[item.label] for item in items]
