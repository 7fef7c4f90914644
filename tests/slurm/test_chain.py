import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from conf.errors import InputError
from slurm.chain import Step, check_passed_groups, flatten, in_dependency_order, override_lines, read_chain


def step(name: str, *needs: str) -> Step:
    return Step(name, "pipeline", "pipeline", (), needs, (name,))


def chain_node(**steps: object) -> object:
    return OmegaConf.create({"name": "test", "steps": steps})


@given(st.permutations(list("abcdef")), st.sets(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"))))
def test_every_step_comes_after_all_it_needs(order: list[str], edges: set[tuple[str, str]]) -> None:
    acyclic = {(first, second) for first, second in edges if first < second}
    steps = [step(name, *(first for first, second in acyclic if second == name)) for name in order]
    names = [item.name for item in in_dependency_order(steps)]
    assert sorted(names) == list("abcdef")
    assert all(names.index(first) < names.index(second) for first, second in acyclic)


def test_independent_steps_keep_the_order_of_the_chain_file() -> None:
    assert [item.name for item in in_dependency_order([step("b"), step("c", "a"), step("a")])] == ["b", "a", "c"]


def test_steps_in_a_circle_are_refused_and_named() -> None:
    with pytest.raises(InputError, match=r"circle.*: a, b$"):
        in_dependency_order([step("c"), step("a", "b"), step("b", "a")])


def test_an_unknown_need_names_the_nearest_step() -> None:
    with pytest.raises(InputError, match=r"step 'b' needs 'shard'.*did you mean 'shards'"):
        in_dependency_order([step("shards"), step("b", "shard")])


def test_nested_options_become_dotted_names_and_a_plus_moves_to_the_front() -> None:
    options = {"a": {"b": 1, "+c": [2]}, "d": {}}
    assert flatten(options) == [("a.b", 1), ("+a.c", [2]), ("d", {})]


def test_a_mapping_by_path_is_one_value_and_may_be_given_as_pairs() -> None:
    assert flatten({"data=": {"x/a": 1.0}, "b": {"c=": [["x/d", 0.5], ["y", 1]]}}) == [
        ("data", {"x/a": 1.0}),
        ("b.c", {"x/d": 0.5, "y": 1}),
    ]


def test_what_the_user_passes_replaces_the_steps_own_choice() -> None:
    lines = override_lines({"corpus": "text"}, {"output": "x"}, ["corpus=jsonl", "corpus.paths=[a]"])
    assert lines == ("output=x", "corpus=jsonl", "corpus.paths=[a]")


def test_only_steps_that_pass_a_group_receive_it() -> None:
    node = chain_node(
        a={"command": "pipeline", "passes": ["corpus"]}, b={"command": "pretrain.export", "options": {"x": {"y": "z"}}}
    )
    chain = read_chain(node, "runs/t", ["corpus=text", "++corpus.paths=[p]", "dry_run=true"])
    assert [item.overrides for item in chain.steps] == [("corpus=text", "++corpus.paths=[p]"), ("x.y=z",)]
    assert [item.config_name for item in chain.steps] == ["pipeline", "export"]


def test_a_group_that_no_step_takes_is_refused() -> None:
    with pytest.raises(InputError, match="no step of the chain 'test' takes 'corpus'"):
        check_passed_groups(chain_node(a={"command": "pipeline"}), ["corpus"])


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        ({"comand": "pipeline"}, "no option 'comand': did you mean 'command'"),
        ({"command": "pipeline", "needs": 3}, "chain.steps.a.* does not fit"),
        ({"needs": []}, "chain.steps.a.command' must name the module"),
        ({"command": "p", "options": {"x.y": 1}}, "must be nested, but has the dotted key 'x.y'"),
        ({"command": "p", "outputs": ["../b"]}, "inside the run directory"),
        ({"command": "p", "options": {"x": "${nothing}"}}, "'chain.steps.a' cannot be resolved"),
    ],
)
def test_a_step_that_does_not_fit_is_one_sentence(node: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_chain(chain_node(a=node), "runs/t", [])


def test_two_steps_with_one_output_are_refused() -> None:
    with pytest.raises(InputError, match="steps 'a' and 'b' both write 'x/y'"):
        read_chain(
            chain_node(a={"command": "p", "outputs": ["x"]}, b={"command": "p", "outputs": ["x/y"]}), "runs/t", []
        )
