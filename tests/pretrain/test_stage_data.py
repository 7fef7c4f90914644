from types import SimpleNamespace

import pytest

from pretrain.stage_data import content_hash


def stages(*keys):
    return [SimpleNamespace(train=SimpleNamespace(key=key)) for key in keys]


def test_the_hash_of_one_directory_does_not_depend_on_the_number_of_stages_that_read_it():
    assert content_hash(stages("a")) == content_hash(stages("a", "a")) == "a"


@pytest.mark.parametrize("other", ["ab", "abb", "aab", "ba"])
def test_the_hash_says_which_stage_reads_which_directory(other):
    assert content_hash(stages(*"aba")) != content_hash(stages(*other))
