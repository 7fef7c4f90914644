"""Where a task's files are found, what is said when they are not, and the hash of what was read."""

import zipfile

import pytest

from conf.errors import InputError
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.tasks.definition import TextItem, format_hash
from pretrain.evaluation.tasks.mnli import mnli
from pretrain.evaluation.tasks.pairs_jsonl import pairs_jsonl
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.sst2 import sst2

HEADER = "index\tsentence1\tsentence2\tlabel\n"


def write_rte(folder, word="x", splits=("train", "dev"), ending="tsv"):
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        (folder / f"{split}.{ending}").write_text(f"{HEADER}0\t{word} {split}\tb\tentailment\n")
    return folder


def texts(files, split):
    return [item.text_a for item in rte().read(files, split)]


def test_splits_come_from_one_place_and_a_copy_elsewhere_is_not_mixed_in(tmp_path):
    write_rte(tmp_path / "RTE", "near", splits=("dev",))
    write_rte(tmp_path / "copies" / "glue" / "RTE", "far")
    files = TaskFiles(tmp_path)
    assert texts(files, "dev") == ["near dev"]
    assert files.used == [f"{tmp_path}/RTE/dev.tsv"]
    with pytest.raises(InputError, match=r"task rte lacks its train split: expected RTE/train.tsv \(GLUE\) below"):
        texts(files, "train")


def test_the_nearest_place_that_has_the_scored_split_wins(tmp_path):
    write_rte(tmp_path / "RTE", "near", splits=("train",))
    write_rte(tmp_path / "glue" / "RTE", "far")
    assert texts(TaskFiles(tmp_path), "train") == ["far train"]


def test_two_equally_near_places_must_agree(tmp_path):
    write_rte(tmp_path / "a" / "RTE", "same")
    write_rte(tmp_path / "b" / "RTE", "same")
    assert texts(TaskFiles(tmp_path), "dev") == ["same dev"]
    write_rte(tmp_path / "b" / "RTE", "other")
    with pytest.raises(
        InputError, match=r"task rte was found twice, '.*a/RTE/train.tsv' and '.*b/RTE/train.tsv' differ"
    ):
        texts(TaskFiles(tmp_path), "dev")


def test_an_archive_beside_what_was_unpacked_from_it_is_the_same_set(tmp_path):
    folder = write_rte(tmp_path / "RTE")
    for split, content in (("dev", (folder / "dev.tsv").read_text()), ("other", "")):
        with zipfile.ZipFile(tmp_path / "RTE.zip", "a") as archive:
            archive.writestr(f"RTE/{split}.tsv", content)
    assert texts(TaskFiles(tmp_path), "dev") == ["x dev"]
    with zipfile.ZipFile(tmp_path / "RTE.zip", "w") as archive:
        archive.writestr("RTE/dev.tsv", "changed")
    with pytest.raises(InputError, match="should be the same file, but differ: remove one of them"):
        texts(TaskFiles(tmp_path), "dev")


def test_a_folder_of_another_name_is_the_task_s_own_only_if_said_so(tmp_path):
    write_rte(tmp_path / "mine")
    with pytest.raises(InputError, match="task rte lacks its dev split"):
        texts(TaskFiles(tmp_path / "mine"), "dev")
    assert texts(TaskFiles(tmp_path / "mine", own=True), "dev") == ["x dev"]


def test_a_set_of_the_right_name_goes_before_another_in_the_task_s_own_place(tmp_path):
    write_rte(tmp_path / "CB", "of another task")
    write_rte(tmp_path / "sets" / "RTE", "right")
    assert texts(TaskFiles(tmp_path, own=True), "dev") == ["right dev"]


def test_what_is_missing_is_said_with_place_and_home(tmp_path):
    with pytest.raises(InputError) as caught:
        texts(TaskFiles(tmp_path), "dev")
    for part in (
        "RTE/dev.tsv (GLUE)",
        "RTE/val.jsonl (SuperGLUE)",
        "rte/dev.csv (quoted csv",
        str(tmp_path),
        "https://",
    ):
        assert part in str(caught.value)
    with pytest.raises(InputError, match="task pairs has no dev split: it has test"):
        pairs_jsonl("pairs").read(TaskFiles(tmp_path), "dev")


def test_a_split_without_a_row_is_refused(tmp_path):
    write_rte(tmp_path / "RTE")
    (tmp_path / "RTE" / "dev.tsv").write_text(HEADER)
    with pytest.raises(InputError, match=r"task rte: the dev split has no row in .*RTE/dev.tsv"):
        texts(TaskFiles(tmp_path), "dev")


def test_a_place_says_which_files_it_has_and_what_is_missing(tmp_path):
    write_rte(tmp_path / "RTE")
    files = TaskFiles(tmp_path)
    found = rte().locate(files)
    names = {split: tuple(file.name for file in those) for split, those in found.files.items()}
    assert names == {"train": (f"{tmp_path}/RTE/train.tsv",), "dev": (f"{tmp_path}/RTE/dev.tsv",)}
    assert mnli().locate(files) is None
    sentence = mnli().missing(files, "dev")
    assert "task mnli_matched lacks its dev split" in sentence
    assert "MNLI/dev_matched.tsv" in sentence and "https://" in sentence


def test_ids_that_occur_twice_are_told_apart(tmp_path):
    write_rte(tmp_path / "RTE")
    (tmp_path / "RTE" / "dev.tsv").write_text(HEADER + "5\ta\tb\tentailment\n5\tc\td\tentailment\n")
    assert [item.id for item in rte().read(TaskFiles(tmp_path), "dev")] == ["5", "5#2"]


def test_the_hash_is_of_task_version_items_and_order():
    items = [TextItem("0", "a", None, 1, "0"), TextItem("1", "b", None, 0, "1")]
    hashes = [
        format_hash(sst2(), items),
        format_hash(rte(), items),
        format_hash(sst2(), items[::-1]),
        format_hash(sst2(), items[:1]),
        format_hash(sst2(), [items[0], TextItem("1", "b", None, 1, "1")]),
        format_hash(sst2(), [items[0], TextItem("1", "b", None, 0, "1", {"fact": "x"})]),
    ]
    assert len(set(hashes)) == len(hashes)
    assert format_hash(sst2(), list(items)) == hashes[0]
