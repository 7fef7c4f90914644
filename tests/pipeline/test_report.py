import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.report import Summary, histogram, readable_size


def test_summaries_of_ranges_add_up():
    sidecars = [
        {"failures": {"not_json": 2}, "examples": ["a"], "lengths": [0, 1]},
        {"failures": {"not_json": 1, "no_text": 4}, "examples": ["b"], "lengths": [3, 0, 5]},
    ]
    assert Summary.of(sidecars) == Summary({"no_text": 4, "not_json": 3}, ["a", "b"], [3, 1, 5])
    pairs = [{**sidecar, "target_lengths": sidecar["lengths"][::-1]} for sidecar in sidecars]
    assert Summary.of(pairs).target_lengths == [6, 0, 3]


def test_the_histogram_has_a_bar_for_every_bin_between_the_first_and_the_last_used():
    svg = ElementTree.fromstring(histogram([0, 0, 4, 0, 8, 0]))
    bars = svg.findall("rect")
    heights = [float(bar.get("height")) for bar in bars]
    assert heights == [heights[2] / 2, 0.0, heights[2]]
    assert bars[0].find("title").text == "4 to 7 tokens: 4 documents"
    assert [label.text for label in svg.findall("text")] == ["4", "8", "16"]


def test_no_documents_give_no_histogram():
    assert histogram([]) == histogram([0, 0]) == ""


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (5_600_000, "5.6 MB"), (7 * 10**15, "7000.0 TB")]
)
def test_sizes_are_readable(size, text):
    assert readable_size(size) == text
