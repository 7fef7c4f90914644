import pytest

from conf.errors import InputError
from pipeline.jobs.documents import DocumentsJob
from pipeline.no_corpus import NoCorpus
from pipeline.planned import PlannedCorpus
from pipeline.runners import LocalRunner


def test_it_has_no_files_and_a_fingerprint_all_the_same():
    corpus = PlannedCorpus(NoCorpus())
    assert corpus.plan().files == () == corpus.plan().ranges
    assert corpus.fingerprint() == PlannedCorpus(NoCorpus()).fingerprint()


def test_a_job_that_reads_documents_says_that_there_are_none(tmp_path):
    with pytest.raises(InputError, match="the corpus is empty"):
        DocumentsJob().run(NoCorpus(), tmp_path, None, LocalRunner(1))
