"""The cldr_bitext job: babel's CLDR data -> bitext, monolingual text, validation and test pairs. Never imports torch.

`pipeline.cldr_bitext` says which sentence may stand in which file. The job reads no corpus. It is one unit of work,
ten seconds for the sizes of a demo: no two sentences of all its files may be alike, so each draw must know of those
before. It still goes through the runner like every job, which records its provenance.
"""

import functools
import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import babel

from conf.errors import InputError
from conf.files import atomic_write_text, sha256_file
from pipeline.cldr_bitext.names import NAMES, keys_of
from pipeline.cldr_bitext.phrasebook import FRAMES, LANGUAGES
from pipeline.cldr_bitext.split import TAGS, Parts, Sentence, Sizes, split
from pipeline.jobs.code_version import code_version
from pipeline.jobs.reading import fingerprint
from pipeline.runners import Runner
from pipeline.sources import Corpus

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
KIND = "cldr_bitext"
MANIFEST = "manifest.json"
SUMMARY = "summary.json"


@dataclass(frozen=True)
class CldrBitextJob:
    """Options of the job.

    Attributes:
        source, target: languages of the pairs: en, de or zh.
        bitext_pairs: pairs of the bitext.
        monolingual_sentences: sentences of each monolingual file.
        validation_pairs, test_pairs: pairs of the two.
        names_in_bitext: share of each group of names that may stand in the bitext, above 0 up to 1.
        unseen_share: share of validation and test with a name that the bitext does not have.
        seed: of every draw.
    """

    source: str = "en"
    target: str = "de"
    bitext_pairs: int = 3000
    monolingual_sentences: int = 40000
    validation_pairs: int = 400
    test_pairs: int = 1000
    names_in_bitext: float = 0.6
    unseen_share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        for option in ("bitext_pairs", "monolingual_sentences", "validation_pairs", "test_pairs"):
            if getattr(self, option) < 1:
                raise InputError(f"option 'job.{option}' must be at least 1, but is {getattr(self, option)}")
        if not 0 < self.names_in_bitext <= 1:
            raise InputError(
                f"option 'job.names_in_bitext' must be above 0 and at most 1, but is {self.names_in_bitext}"
            )
        if not 0 <= self.unseen_share <= 1:
            raise InputError(f"option 'job.unseen_share' must be between 0 and 1, but is {self.unseen_share}")

    def run(self, corpus: Corpus, output: Path, tokenizer: str | None, runner: Runner) -> None:
        """Write into `output`, the manifest last:

        bitext.tsv, validation.tsv, test.tsv: a pair a line, source and target parted by a tab, no header.
        test.jsonl, validation.jsonl: the same pairs with `id`, `text` (the source), `reference`, `frame` and `names`
        (the tag: see `split.TAGS`).
        monolingual.<language>: a sentence a line, one file for each language.
        exclusions.txt: both sides of the test, a sentence a line, for whoever must keep them out of training text.

        Raises:
            InputError: a corpus is given, an unknown language, or more sentences than can be drawn.
            RuntimeError: the runner did not do the work.
        """
        if corpus.plan().files:
            raise InputError("job=cldr_bitext makes its text itself: leave the corpus out, or give corpus=none")
        key = fingerprint(
            KIND, FORMAT_VERSION, asdict(self), babel.__version__, NAMES, [repr(frame) for frame in FRAMES]
        )
        if _is_done(output, key):
            logger.info("'%s' is complete for these options: nothing to do", output)
            return
        (output / MANIFEST).unlink(missing_ok=True)
        (output / SUMMARY).unlink(missing_ok=True)
        for language in set(LANGUAGES) - {self.source, self.target}:  # of a run with other languages
            (output / f"monolingual.{language}").unlink(missing_ok=True)
        runner.run(functools.partial(build_pipeline, job=self, directory=str(output)), units=1)
        try:
            summary = json.loads((output / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RuntimeError("the runner ended, but nothing was written: run the same command again") from error
        content = hashlib.sha256(json.dumps(summary["files"], sort_keys=True).encode()).hexdigest()
        manifest = {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "key": key,
            "config": asdict(self),
            "babel_version": babel.__version__,
            **summary,
            "content_hash": f"sha256:{content}",
            "code_version": code_version(),
        }
        atomic_write_text(output / MANIFEST, _json(manifest))
        (output / SUMMARY).unlink()
        logger.info(
            "%s, in '%s'", ", ".join(f"{name} {file['lines']}" for name, file in summary["files"].items()), output
        )


def build_pipeline(pipeline: Any, job: CldrBitextJob, directory: str) -> None:
    """Add the job's transforms to a Beam pipeline: Create of one element and a Map, which every runner does alike."""
    import apache_beam as beam

    _ = pipeline | "job" >> beam.Create([job]) | "write" >> beam.Map(write_parts, directory=directory)


def write_parts(job: CldrBitextJob, directory: str) -> str:
    """Draw all sentences and write all files, the summary of them last. Returns the directory."""
    sizes = Sizes(job.bitext_pairs, job.monolingual_sentences, job.validation_pairs, job.test_pairs, job.unseen_share)
    parts = split(job.source, job.target, sizes, job.names_in_bitext, job.seed)
    output = Path(directory)
    contents = contents_of(parts)
    for name, lines in contents.items():
        atomic_write_text(output / name, "".join(f"{line}\n" for line in lines))
    summary = {
        "files": {
            name: {"lines": len(lines), "checksum": f"sha256:{sha256_file(output / name)}"}
            for name, lines in contents.items()
        },
        "tags": {part: {tag: tags.count(tag) for tag in TAGS} for part, tags in parts.tags.items()},
        "names": _names(parts),
    }
    atomic_write_text(output / SUMMARY, _json(summary))
    return directory


def contents_of(parts: Parts) -> dict[str, list[str]]:
    """The lines of every file, by its name."""
    pairs = {"bitext": parts.bitext, "validation": parts.validation, "test": parts.test}
    contents = {f"{name}.tsv": _pairs(parts, sentences) for name, sentences in pairs.items()}
    for language, sentences in parts.monolingual.items():
        contents[f"monolingual.{language}"] = [sentence.text(language) for sentence in sentences]
    for name in ("validation", "test"):
        contents[f"{name}.jsonl"] = list(_items(parts, name, pairs[name]))
    contents["exclusions.txt"] = [
        sentence.text(language) for language in (parts.source, parts.target) for sentence in parts.test
    ]
    return contents


def _pairs(parts: Parts, sentences: Iterable[Sentence]) -> list[str]:
    return [f"{sentence.text(parts.source)}\t{sentence.text(parts.target)}" for sentence in sentences]


def _items(parts: Parts, name: str, sentences: Sequence[Sentence]) -> Iterable[str]:
    for number, (sentence, tag) in enumerate(zip(sentences, parts.tags[name], strict=True)):
        item = {
            "id": f"{name}-{number}",
            "text": sentence.text(parts.source),
            "reference": sentence.text(parts.target),
            "frame": sentence.frame.name,
            "names": tag,
        }
        yield json.dumps(item, ensure_ascii=False)


def _names(parts: Parts) -> dict[str, Any]:
    """How many names there are, and of each part how many and which it lacks."""
    every = keys_of(NAMES)
    files = {
        "bitext": parts.bitext,
        **{f"monolingual.{language}": sentences for language, sentences in parts.monolingual.items()},
        "test": parts.test,
    }
    found = {name: frozenset().union(*(sentence.names() for sentence in part)) for name, part in files.items()}
    return {
        "all": len(every),
        **{name: {"present": len(keys), "absent": sorted(every - keys)} for name, keys in found.items()},
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _is_done(output: Path, key: str) -> bool:
    """Whether a finished output of the same key is there, every file as the manifest states."""
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["key"] == key) and all(
            f"sha256:{sha256_file(output / name)}" == file["checksum"] for name, file in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError):
        return False
