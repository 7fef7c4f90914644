import pytest
import yaml

from conf.errors import InputError
from conf.files import directory_lock
from pretrain.run_directory import only_writer, require_run_directory


def fill(folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize("names", [(), (".lock", ".hidden"), ("slurm-1.out", "train.log"), ("metrics.jsonl", "x")])
def test_a_run_may_be_where_nothing_or_a_run_is(tmp_path, names):
    require_run_directory(tmp_path / "nowhere")
    require_run_directory(fill(tmp_path / "run", *names))


def test_a_run_that_was_killed_at_its_start_goes_on(tmp_path):
    run_dir = fill(tmp_path / "run", "tokenizer.json")
    (run_dir / "config.yaml").write_text(yaml.safe_dump({"run_dir": "x", "trainer": {}}))
    require_run_directory(run_dir)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("manifest.json", "config.yaml"), "holds shards or other data"),
        (("manifest.json", "metrics.jsonl"), "holds shards or other data"),
        (("config.yaml", "tokenizer.json", "provenance.json"), r"holds what is no run \('config.yaml'\)"),
        (("thesis.tex",), r"holds what is no run \('thesis.tex'\): choose another"),
    ],
)
def test_no_other_folder_is_written_into(tmp_path, names, words):
    folder = fill(tmp_path / "mine", *names)
    with pytest.raises(InputError, match=words), only_writer(folder):
        pass
    assert {path.name for path in folder.iterdir()} == set(names)


def test_a_refused_run_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError), only_writer(tmp_path / "runs" / "a"):
        raise InputError("no")
    assert not list(tmp_path.iterdir())


def test_what_was_there_or_was_written_stays(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError), only_writer(tmp_path / "empty"):
        raise InputError("no")
    assert list((tmp_path / "empty").iterdir()) == []
    with pytest.raises(InputError), only_writer(tmp_path / "begun"):
        (tmp_path / "begun" / "metrics.jsonl").touch()
        raise InputError("no")
    assert (tmp_path / "begun" / "metrics.jsonl").exists()
    with only_writer(tmp_path / "done"):
        pass
    assert (tmp_path / "done" / ".lock").exists()
    with directory_lock(tmp_path / "held"), pytest.raises(InputError, match="in use"), only_writer(tmp_path / "held"):
        pass
    assert (tmp_path / "held" / ".lock").exists()
