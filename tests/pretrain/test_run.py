from omegaconf import OmegaConf

from pretrain.run import _identity


def test_a_checkpoint_knows_the_list_of_rows_to_skip_by_its_content(tmp_path):
    def known_by(folder, text):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "skip.jsonl").write_text(text)
        return _identity(OmegaConf.create({"skip_rows": str(tmp_path / folder / "skip.jsonl"), "seed": 1}))

    first, moved, longer = known_by("a", "1\n"), known_by("b", "1\n"), known_by("c", "1\n2\n")
    assert first == moved != longer and first["seed"] == 1
    assert first["skip_rows"].startswith("skip.jsonl, sha256 ")
    assert _identity(OmegaConf.create({"skip_rows": None})) == {"skip_rows": None}
