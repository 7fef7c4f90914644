import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from conf.errors import InputError
from slurm.chain import Chain, Step
from slurm.fingerprints import Fingerprints
from slurm.keys import Parts, compute_parts, differences

NAMES = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
VALUES = st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, True, 1.5, "1", None, [1], {}]), max_size=3)
PARTS = st.builds(Parts, st.sampled_from("pq"), VALUES, NAMES, NAMES, NAMES, NAMES)


@given(PARTS, PARTS)
def test_there_are_words_for_every_difference_and_none_without_one(old: Parts, new: Parts) -> None:
    assert bool(differences(old, new)) == (old.key() != new.key())


def test_an_option_is_named_with_both_values() -> None:
    old = Parts("p", {"job.row_length": 128, "x": None}, {}, {}, {}, {})
    new = replace(old, config={"job.row_length": 64, "y": [1, 2]})
    assert differences(old, new) == [
        "option job.row_length changed 128 -> 64",
        "option x is gone",
        "option y is new: [1, 2]",
    ]


@pytest.fixture
def parts_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def parts(
        options: dict, run_dir: str = "runs/a", needs: tuple[str, ...] = (), inputs: tuple[str, ...] = ()
    ) -> Parts:
        steps = (
            Step("one", "slurm.submit", "submit", (), (), ("one",)),
            Step("two", "slurm.submit", "submit", (), needs, ("two",), inputs),
        )
        chain = Chain("test", Path(run_dir), steps)
        return compute_parts(chain, steps[1], OmegaConf.create(options), {}, Fingerprints(tmp_path / "known.json"))

    return parts


def test_the_place_of_the_run_directory_is_not_in_the_key(parts_of, tmp_path: Path) -> None:
    here = parts_of({"output": "runs/a/two", "list": ["runs/a/two/x"]})
    there = parts_of({"output": f"{tmp_path}/else/two", "list": [f"{tmp_path}/else/two/x"]}, run_dir=f"{tmp_path}/else")
    assert here.key() == there.key()
    assert here.config["output"] == "$run_dir/two"


def test_files_folders_and_globs_that_options_name_are_inputs(parts_of, tmp_path: Path) -> None:
    for name in ("raw/a.txt", "raw/b.txt", "raw/.hidden", "folder/c.txt", "plain"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = parts_of({"paths": ["raw/*.txt"], "where": f"{tmp_path}/folder", "file": "plain", "other": "raw/none"})
    assert list(found.inputs) == sorted([f"{tmp_path}/folder/c.txt", "plain", "raw/a.txt", "raw/b.txt"])


def test_a_word_that_happens_to_be_a_folder_is_no_input_but_a_path_option_is(parts_of, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a").write_text("a")
    assert parts_of({"format": "text"}).inputs == {}
    assert list(parts_of({"corpus": {"paths": ["text"]}}).inputs) == ["text/a"]


def test_outputs_of_a_needed_step_are_no_inputs_and_of_another_step_are_refused(parts_of, tmp_path: Path) -> None:
    (tmp_path / "runs/a/one").mkdir(parents=True)
    (tmp_path / "runs/a/one/x").write_text("x")
    assert parts_of({"data": "runs/a/one/x"}, needs=("one",)).inputs == {}
    with pytest.raises(InputError, match=r"step 'two' names 'runs/a/one/x'.*add one to chain\.steps\.two\.needs"):
        parts_of({"data": "runs/a/one/x"})


def test_an_input_of_the_chain_file_must_exist(parts_of) -> None:
    with pytest.raises(InputError, match="its input 'nothing' does not exist"):
        parts_of({}, inputs=("nothing",))


def test_an_option_without_a_value_is_named(parts_of) -> None:
    with pytest.raises(InputError, match=r"step 'two': option 'a\.b'"):
        parts_of({"a": {"b": "???"}})


def test_a_remembered_hash_is_dropped_when_the_file_changes_at_the_same_size_and_time(tmp_path: Path) -> None:
    path, store = tmp_path / "x", tmp_path / "known.json"
    path.write_text("one")
    known = Fingerprints(store)
    before = known.of(path)
    known.save()
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert Fingerprints(store).of(path) != before


def test_steps_that_run_side_by_side_keep_each_others_hashes(tmp_path: Path) -> None:
    store = tmp_path / "known.json"
    paths = [tmp_path / name for name in ("x", "y")]
    stores = [Fingerprints(store) for _ in paths]
    for path, known in zip(paths, stores, strict=True):
        path.write_text(path.name)
        known.of(path)
    for known in stores:
        known.save()
    assert set(json.loads(store.read_text())) == {str(path) for path in paths}


def test_paths_that_are_keys_of_an_option_are_inputs_too_and_move_with_the_run(parts_of, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("a")
    found = parts_of({"data": {"runs/a/one/x": 1.0, "./raw": 2.0}}, needs=("one",))
    assert found.config["data"] == {"$run_dir/one/x": 1.0, "./raw": 2.0}
    assert [name for name in found.inputs if name.endswith("raw/a.txt")]
    with pytest.raises(InputError, match="an output of step 'one', which it does not need"):
        parts_of({"data": {"runs/a/one/x": 1.0}})
