"""Rows of a data set on the Hugging Face hub, or of one that was saved to a folder before. Must not import torch.

`datasets` is imported only when such rows are asked for: it takes seconds.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.sources import csv, jsonl
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split

NO_SCRIPTS = "Dataset scripts are no longer supported"
SUFFIXES = (".parquet", ".jsonl", ".csv")


@dataclass
class HubData:
    """Where the hub's data sets are read: online, or from `root`, a folder of saved ones.

    `root` is either one saved set or holds one per task, named as the task. A saved set is what
    `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote, or a folder of parquet, jsonl or csv files named after
    the splits (`validation.parquet`, `validation-00000-of-00001.parquet`, `validation/0000.parquet`). `used` names
    what was read.
    """

    root: Path | None = None
    used: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def hub_rows(path: str, config: str | None, name: str, split: Split, data: HubData, task: str) -> Iterator[Row]:
    """The rows of a split, labels by their names where the set has names for its numbers.

    Args:
        path: data set on the hub, such as `nyu-mll/glue`.
        config: its configuration.
        name: the split's name there.
        split: the split's name here.
        data: online or saved.
        task: the task's name.

    Raises:
        InputError: the hub cannot be reached or lacks the set, or there is no such saved set or split.
    """
    if data.root is None:
        where = " ".join(filter(None, ("hub data set", path, config)))
        table = _online(path, config, name)
    else:
        folder = data.root / task if (data.root / task).is_dir() else data.root
        where = f"'{folder}'"
        table = _saved(folder, name)
    where = f"{where}, {name}"
    data.used.append(where)
    features = getattr(table, "features", {})
    names = {key: feature.names for key, feature in features.items() if hasattr(feature, "names")}
    for number, values in enumerate(table):
        for key, labels in names.items():
            if values[key] is not None and values[key] >= 0:
                values[key] = labels[values[key]]
        yield Row(values, f"{where}, row {number}", number, split)


def _online(path: str, config: str | None, name: str) -> Any:
    import datasets

    try:
        try:
            return datasets.load_dataset(path, config, split=name)
        except RuntimeError as error:
            if NO_SCRIPTS not in str(error):
                raise
            # The hub keeps a copy in parquet of each set that has a script, on a branch of its own.
            files = f"hf://datasets/{path}@refs%2Fconvert%2Fparquet/{config or 'default'}/{name}/*.parquet"
            return datasets.load_dataset("parquet", data_files=files, split="train")
    except Exception as error:  # `datasets`, `huggingface_hub`, `fsspec` and `httpx` each raise errors of their own
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the hub data set {path} {config or ''} cannot be read, '{name}' ({type(error).__name__}: {reason}): go "
            "online, or give a folder where it was saved"
        ) from error


def _saved(folder: Path, name: str) -> Any:
    import datasets

    if (folder / "dataset_dict.json").is_file():
        splits = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        if name not in splits:
            raise InputError(
                f"the data set saved in '{folder}' must have a split '{name}', but has {', '.join(splits)}"
            )
        return datasets.load_from_disk(str(folder / name))
    if (folder / "state.json").is_file():
        saved = datasets.load_from_disk(str(folder))
        if saved.split is not None and str(saved.split) != name:
            raise InputError(f"the data set saved in '{folder}' must be the split '{name}', but is '{saved.split}'")
        return saved
    for suffix in SUFFIXES:
        patterns = (f"{name}{suffix}", f"{name}-*{suffix}", f"{name}/*{suffix}")
        files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
        if files:
            return _from_files(suffix, files)
    raise InputError(
        f"'{folder}' must hold the split '{name}' of a saved data set (dataset_dict.json, or {name}.parquet, "
        f"{name}.jsonl or {name}.csv), but does not"
    )


def _from_files(suffix: str, files: list[Path]) -> Any:
    """Read directly: the builders of `datasets` would put a copy of the files into a cache."""
    if suffix == ".parquet":
        import datasets
        from pyarrow import parquet

        return datasets.concatenate_datasets([datasets.Dataset(parquet.read_table(file)) for file in files])
    rows = csv.rows if suffix == ".csv" else jsonl.rows
    return [dict(row.values) for file in files for row in rows(DataFile(file, None, ()), "test")]
