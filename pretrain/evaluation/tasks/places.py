"""Where a task's data lie, from the options `task.data` and `tasks`."""

from pathlib import Path

from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.sources.hub import HubData
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.definition import Item, TaskDefinition

HUB = "hub"


def place_of(data: str | None, directory: Path | None, definition: TaskDefinition) -> TaskFiles | HubData:
    """The place to look for a task.

    Args:
        data: the task's own folder or archive; `hub` for a download, `hub:FOLDER` for what was saved from there; None
            for all data sets in `directory`.
        directory: where relative paths begin; None for the working directory.
        definition: for the sentence of an error.

    Raises:
        TaskMissing: neither is given.
        InputError: there is no such place.
    """
    base = Path() if directory is None else directory
    if data == HUB:
        return HubData()
    if data is not None and data.startswith(f"{HUB}:"):
        return HubData((base / data.removeprefix(f"{HUB}:")).resolve())
    if data is not None:
        return TaskFiles((base / data).resolve(), own=True)
    if directory is None:
        raise TaskMissing(
            f"task {definition.name} needs its data: give tasks=DIR, a folder of data sets, or task.data=DIR, from "
            f"{definition.home}",
            f"a folder of data sets (tasks=DIR) or its own, from {definition.home}",
        )
    return TaskFiles(directory.resolve())


def read_items(definition: TaskDefinition, place: TaskFiles | HubData, split: Split) -> list[Item]:
    """The items of a split.

    Raises:
        TaskMissing: the place does not have them.
        InputError: a row that cannot be read.
    """
    if isinstance(place, TaskFiles):
        location = definition.locate(place)
        if location is None or split not in location.files:
            raise TaskMissing(definition.missing(place, split), definition.wanted(place, split))
    return definition.read(place, split)
