"""Numbers and names in words."""

import pytest

from pretrain.evaluation.report.words import duration, p_value, path_name, percent, size, task_name


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (duration(4.2), "4.2 s"),
        (duration(187), "3 min 7 s"),
        (duration(7500), "2 h 5 min"),
        (size(312), "312 B"),
        (size(4_100_000), "4.1 MB"),
        (percent(0.99999), "99.99 %"),
        (percent(1.0), "100.00 %"),
        (p_value(0.0312), "0.031"),
        (p_value(0.00099), "< 0.001"),
        (task_name("minimal_pairs/subject_verb"), "subject verb"),
        (task_name("minimal_pairs/overall"), "minimal pairs overall"),
        (path_name("winogrande/xs"), "winogrande, xs"),
    ],
)
def test_numbers_and_names_in_words(said: str, expected: str) -> None:
    assert said == expected
