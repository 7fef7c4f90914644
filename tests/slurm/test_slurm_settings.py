import pytest

from conf.errors import InputError
from slurm.slurm_settings import SlurmSettings, Variable


@pytest.mark.parametrize("time", ["90", "90:30", "24:00:00", "3-12", "3-12:30", "1-00:00:00"])
def test_times_are_written_as_slurm_reads_them(time):
    assert SlurmSettings(time=time).time == time


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time": "2h"}, r"cluster\.time must be a time as Slurm reads it .*, but is '2h'"),
        ({"nodes": 0}, r"cluster\.nodes must be at least 1, but is 0"),
        ({"gpus_per_node": -1}, r"cluster\.gpus_per_node must be at least 0"),
        ({"extra": ["constraint=a100"]}, r"such as --constraint=a100, but has 'constraint=a100'"),
        ({"environment": {"A-B": 1}}, r"cluster\.environment\.A-B must be named by letters"),
        ({"environment": {"A": {"why": "x"}}}, r"cluster\.environment\.A must have a value"),
        ({"environment": {"A": "one\ntwo"}}, r"cluster\.environment\.A must be a number or text of one line"),
        ({"environment": {"A": True}}, r"cluster\.environment\.A must be a number or text of one line, but is true"),
    ],
)
def test_what_slurm_or_bash_would_not_take_is_one_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence):
        SlurmSettings(**options)


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "password"]
)
def test_secrets_are_refused_in_the_environment(name):
    with pytest.raises(InputError, match=rf"cluster\.environment\.{name} seems to be a secret"):
        SlurmSettings(environment={name: "x"})


def test_a_variable_has_a_reason_or_is_the_bare_value():
    settings = SlurmSettings(environment={"A": {"value": 1, "why": "because\n of b"}, "B": "$A/b"})
    assert settings.variables() == [Variable("A", "1", "because of b"), Variable("B", "$A/b", None)]
