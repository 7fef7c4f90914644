"""Writes the page of an evaluation or of a chain. Must not import torch."""

from pathlib import Path

from conf.files import atomic_write_bytes
from pretrain.evaluation.report.facts import PAGE, Facts, Shown, collect_evaluation
from pretrain.evaluation.report.page import render


def write_page(folder: Path, facts: Facts) -> bool:
    """Write `report.html` into a folder; whether there was anything new to write."""
    return write_if_new(folder / PAGE, render(facts).encode())


def write_evaluation_page(folder: Path) -> Path:
    """The page of an evaluation, beside its scores.json; its path."""
    write_page(folder, collect_evaluation(folder, folder.resolve().name, Shown()))
    return folder / PAGE


def write_if_new(path: Path, content: bytes) -> bool:
    """Write a file unless it holds just that; whether it was written."""
    if path.is_file() and path.read_bytes() == content:
        return False
    atomic_write_bytes(path, content)
    return True
