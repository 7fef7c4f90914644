"""The whole of `python -m slurm.submit`, on a small project of its own whose files a test may touch."""

import json
import re
import shutil
import signal
import subprocess
import time

import pytest


def said(done: subprocess.CompletedProcess) -> str:
    return done.stdout + done.stderr


def ran(toy) -> None:
    done = toy.submit()
    assert done.returncode == 0, said(done)


def test_a_chain_runs_in_dependency_order_and_a_second_run_does_nothing(toy) -> None:
    ran(toy)
    assert (toy.run_dir / "last/text").read_text() == "A-B.-E.."
    before = toy.runs()
    done = toy.submit()
    assert done.returncode == 0
    assert "nothing to do: all 3 steps of runs/toy are complete" in done.stdout
    assert toy.runs() == before
    assert (toy.run_dir / "logs/middle.log").read_text().splitlines()[1] == "joining 2 files"


@pytest.mark.parametrize(
    ("touch", "reason", "reruns"),
    [
        ("option", "middle +run +option mark changed - -> \\+", {"middle", "last"}),
        ("input", "first +run +input raw/a.txt changed", {"first", "middle", "last"}),
        ("later input", "middle +run +input raw/extra.txt changed", {"middle", "last"}),
        ("code", "first +run +code of toy/text.py changed", {"first", "middle", "last"}),
        ("output", "middle +run +output middle/text has changed", {"middle", "last"}),
        ("missing output", "middle +run +output middle/text is missing", {"middle", "last"}),
        ("unused code", "nothing to do", set()),
        ("unrelated file", "nothing to do", set()),
    ],
)
def test_touching_any_one_reruns_the_step_and_its_dependents(toy, touch: str, reason: str, reruns: set) -> None:
    ran(toy)
    before = toy.runs()
    overrides = []
    if touch == "option":
        overrides = ["+chain.steps.middle.options.mark=+"]
    elif touch == "input":
        (toy.folder / "raw/a.txt").write_text("C")
    elif touch == "later input":
        (toy.folder / "raw/extra.txt").write_text("F")
    elif touch == "code":
        with (toy.folder / "src/toy/text.py").open("a") as handle:
            handle.write("# a note\n")
    elif touch == "unused code":
        (toy.folder / "src/toy/unused.py").write_text("# a note\n")
    elif touch == "output":
        path = toy.run_dir / "middle/text"
        path.write_text(path.read_text().replace("A", "a"))
    elif touch == "missing output":
        (toy.run_dir / "middle/text").unlink()
    else:
        (toy.folder / "raw/c.txt").write_text("C")
    done = toy.submit(*overrides)
    assert done.returncode == 0, said(done)
    assert re.search(reason, done.stdout), done.stdout
    after = toy.runs()
    assert {name for name in after if after[name] != before[name]} == reruns
    assert toy.attempts() == {"first": 1, "middle": 1, "last": 1}, "a step that runs again starts clean"
    if reruns:
        assert toy.submit(*overrides).stdout.startswith("nothing to do")


def test_old_outputs_are_moved_away_not_lost(toy) -> None:
    ran(toy)
    old = (toy.run_dir / "last/text").read_text()
    done = toy.submit("+chain.steps.last.options.count=2")
    assert "old outputs are in runs/toy/replaced" in done.stderr
    assert (toy.run_dir / "replaced/last/text").read_text() == old
    assert (toy.run_dir / "last/text").read_text() == old * 2


def test_a_run_directory_may_be_moved(toy) -> None:
    ran(toy)
    toy.run_dir.rename(toy.folder / "elsewhere")
    done = toy.submit(f"run_dir={toy.folder}/elsewhere")
    assert "nothing to do" in done.stdout


def test_a_typo_in_the_last_steps_options_stops_before_anything_runs(toy) -> None:
    done = toy.submit("+chain.steps.last.options.cuont=2")
    assert done.returncode == 2
    assert done.stderr.strip() == "error: step 'last': there is no option 'cuont': did you mean 'count'?"
    assert not toy.run_dir.exists()


def test_a_wrong_type_in_a_later_steps_options_stops_before_anything_runs(toy) -> None:
    done = toy.submit(
        "chain=encoder",
        "corpus=text",
        "corpus.paths=[raw/a.txt]",
        "++chain.steps.pretrain.options.trainer.log_every=many",
    )
    assert done.returncode == 2
    assert "error: step 'pretrain': option 'trainer.log_every' must be a whole number" in done.stderr
    assert not (toy.folder / "runs").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "the chain 'tiny' needs a corpus: add corpus=text corpus.paths='[/data/*.jsonl.gz]'"),
        (["corpus=text"], "option 'corpus.paths' must be given: add corpus.paths=VALUE to the command line"),
        (["corpus.paths=[raw/a.txt]"], "there is no option 'corpus.paths': choose a corpus first, add corpus=CHOICE"),
        (["corpus=text", "corpus.paths=[nowhere/*.txt]"], "step 'tokenizer': corpus path 'nowhere/*.txt' matches no"),
        (["corpus=text", "corpus.paths=[raw]"], "step 'tokenizer': corpus path 'raw' is a directory"),
        (["corpus=python_docs", "corpus.roots=[nowhere]"], "step 'tokenizer': option 'corpus.roots' names 'nowhere'"),
        (
            ["corpus=text", "corpus.paths=[raw/a.txt]", "++chain.steps.pretrain.options.trainer.micro_batch_size=-1"],
            "step 'pretrain': trainer.micro_batch_size must be",
        ),
    ],
)
def test_what_a_chain_cannot_read_or_use_is_one_line_before_anything_is_written(toy, options, sentence) -> None:
    done = toy.submit("chain=tiny", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sentence}") and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (toy.folder / "runs").exists()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("chain.monolingual.target=raw/none*", "step 'text_1': option 'input' names 'raw/none*', which is not there"),
        ("chain.test.reference=raw/none", "step 'compare': option 'reference' names 'raw/none', which is not there"),
        (
            "chain.test.reference=raw/longer.txt",
            "step 'compare': the references 'raw/longer.txt' must have as many lines as raw/a.txt, 1, but have 3",
        ),
        ("chain.exclude=[raw/none]", "step 'bitext': corpus path 'raw/none' matches no file"),
        ("chain.rounds=2", "chain.rounds is 2, and every round after the first needs chain.monolingual.source, which"),
        ("chain.rounds=1", None),
    ],
)
def test_text_that_a_late_step_of_a_chain_reads_must_be_there_before_the_first_begins(toy, option, sentence) -> None:
    names = {
        "chain.monolingual.target": "raw/a.txt",
        "chain.test.input": "raw/a.txt",
        "chain.test.reference": "raw/a.txt",
    }
    (toy.folder / "raw/longer.txt").write_text("one\ntwo\nthree\n")
    words = ["chain=back_translation", "chain.source_language=de", "chain.target_language=en", "corpus=tsv"]
    words += ["corpus.paths=[raw/a.txt]", *(f"{name}={value}" for name, value in names.items()), "dry_run=true"]
    done = toy.submit(*words, option)
    assert done.returncode == (0 if sentence is None else 2), said(done)
    assert sentence is None or done.stderr.startswith(f"error: {sentence}")


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("trainer.max_steps=5", "++chain.steps.pretrain.options.trainer.max_steps=VALUE"),
        ("model=bert_small", "++chain.steps.pretrain.groups.model=CHOICE"),
        ("pretrain.seed=3", "++chain.steps.pretrain.options.seed=VALUE"),
        ("job.vocab_size=9", "it belongs to the step tokenizer, shards or tasks"),
        ("held_out_share=0.1", "did you mean 'chain.held_out_share'?"),
        ("cluster.grace=1", "'cluster' has cluster.grace_seconds, cluster.tail_lines"),
    ],
)
def test_an_option_of_a_step_typed_for_the_chain_is_told_where_it_belongs(toy, option: str, place: str) -> None:
    done = toy.submit("chain=encoder", "corpus=text", "corpus.paths=[raw/a.txt]", option)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: there is no option '{option.split('=')[0]}': ")
    assert place in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_corpus_that_an_earlier_step_will_write_need_not_be_there_yet(toy) -> None:
    done = toy.submit("chain=demo", "dry_run=true")
    assert done.returncode == 0, said(done)


def test_a_path_of_a_step_that_is_not_needed_is_refused(toy) -> None:
    done = toy.submit("chain.steps.last.needs=[]")
    assert done.returncode == 2
    assert "add middle to chain.steps.last.needs" in done.stderr


def test_a_failed_step_is_named_with_its_log_and_last_lines_and_nothing_follows(toy) -> None:
    toy.fail.touch()
    done = toy.submit()
    assert done.returncode == 1
    assert "error: step 'middle' failed: exit code 7; log: runs/toy/logs/middle.log" in done.stderr
    assert "    a line before the end" in done.stderr
    assert not (toy.run_dir / "last").exists()
    toy.fail.unlink()
    done = toy.submit()
    assert done.returncode == 0
    assert "first   complete" in done.stdout
    assert "middle  resume" in done.stdout


def test_what_was_shown_on_the_same_terminal_is_not_shown_again(toy) -> None:
    toy.fail.touch()
    process = toy.start()  # both outputs in one pipe
    output = process.communicate(timeout=60)[0]
    assert output.count("a line before the end") == 1
    assert "error: step 'middle' failed: exit code 7; its last lines are above, all of them in runs/toy/logs" in output


def test_bad_input_of_a_step_ends_the_chain_as_bad_input(toy) -> None:
    (toy.folder / "raw/b.txt").unlink()
    done = toy.submit()
    assert done.returncode == 2
    assert "error: step 'first' failed: exit code 2, bad input; log: runs/toy/logs/first.log" in done.stderr


def test_who_ran_a_step_when_is_no_output_of_it(toy) -> None:
    done = toy.submit("+chain.steps.first.options.sign=true")
    assert done.returncode == 0, said(done)
    for name in ("provenance.json", "config.yaml"):
        (toy.run_dir / "first" / name).write_text("{}")
    assert "nothing to do" in toy.submit("+chain.steps.first.options.sign=true").stdout
    (toy.run_dir / "first/text").write_text("x")
    assert "output first/text has changed" in toy.submit("+chain.steps.first.options.sign=true").stdout


def test_a_file_that_only_has_the_name_is_an_output(toy) -> None:
    source = toy.folder / "src/toy/join.py"
    source.write_text(
        source.read_text().replace('(output / "text")', '(output / "config.yaml").touch(); (output / "text")')
    )
    ran(toy)
    (toy.run_dir / "first/config.yaml").write_text("changed")
    assert "output first/config.yaml has changed" in toy.submit("dry_run=true").stdout


def test_a_step_that_does_not_write_its_output_has_failed(toy) -> None:
    done = toy.submit("+chain.steps.first.outputs=[first,second]")
    assert done.returncode == 2
    assert "step 'first' ended well but wrote no 'runs/toy/second'" in done.stderr


def test_an_interrupted_step_resumes_with_its_outputs_and_leaves_no_process(toy) -> None:
    toy.go.unlink()
    process = toy.start()
    pids = [int(toy.wait_for(toy.run_dir / "middle" / name)) for name in ("waiting", "child")]
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130, output
    assert "SIGINT came while step 'middle' ran" in output
    assert not any(toy.is_alive(pid) for pid in pids)
    toy.go.touch()
    done = toy.submit()
    assert done.returncode == 0
    assert "middle  resume" in done.stdout
    assert toy.attempts() == {"first": 1, "middle": 2, "last": 1}


def test_an_interrupted_step_with_another_option_starts_clean(toy) -> None:
    toy.go.unlink()
    process = toy.start()
    toy.wait_for(toy.run_dir / "middle/child")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    toy.go.touch()
    done = toy.submit("+chain.steps.middle.options.count=2")
    assert "its last run did not complete, and since then: option count changed 1 -> 2" in done.stdout
    assert toy.attempts()["middle"] == 1


def test_a_killed_submit_takes_its_step_with_it(toy) -> None:
    toy.go.unlink()
    process = toy.start()
    pid = int(toy.wait_for(toy.run_dir / "middle/waiting"))
    process.kill()
    process.communicate(timeout=60)
    for _ in range(100):
        if not toy.is_alive(pid):
            break
        time.sleep(0.1)
    assert not toy.is_alive(pid)
    toy.go.touch()
    assert "middle  resume" in toy.submit().stdout


def test_two_submits_of_one_run_do_not_meet(toy) -> None:
    toy.go.unlink()
    process = toy.start()
    toy.wait_for(toy.run_dir / "middle/child")
    done = toy.submit()
    assert done.returncode == 2
    assert "'runs/toy' is in use by another run (process" in done.stderr
    toy.go.touch()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_dry_run_shows_the_plan_and_writes_nothing(toy) -> None:
    done = toy.submit("dry_run=true")
    assert done.returncode == 0
    assert "first   run       it has not run yet" in done.stdout
    assert "middle  run       step first, which it needs, runs" in done.stdout
    assert "-m toy.join" in done.stdout and "output=runs/toy/last" in done.stdout
    assert not (toy.folder / "runs").exists()


def test_a_damaged_record_means_not_complete(toy) -> None:
    ran(toy)
    record = toy.run_dir / "steps/last.json"
    record.write_text(record.read_text()[:100])
    done = toy.submit()
    assert "last    run       it has not run yet" in done.stdout
    assert json.loads(record.read_text())["step"] == "last"


def test_a_copy_of_a_run_is_as_complete_as_the_run(toy) -> None:
    ran(toy)
    shutil.copytree(toy.run_dir, toy.folder / "runs/copy")
    assert "nothing to do" in toy.submit("run_dir=runs/copy").stdout
