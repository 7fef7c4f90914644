"""Items of every kind that a tiny model can learn, out of the words of the small tokenizer."""

from pretrain.evaluation.tasks.definition import ChoiceItem, SpanItem, TextItem


def texts(count, pair=False, regression=False):
    """Does the text speak of a dog? As a regression the answer is 0 or 4."""
    rows = []
    for number in range(count):
        label = number % 2
        text = f"the {'table is new' if number % 3 else 'new file is there now'} {'dog' if label else 'key'}"
        second = "the table" if pair else None
        rows.append(TextItem(str(number), text, second, 4.0 * label if regression else label, str(number)))
    return rows


def choices(count):
    """The dog is always right; some items have three options."""
    rows = []
    for number in range(count):
        options = ["the dog", "the key", "the file"][: 2 + number % 2]
        at = number % len(options)
        options = options[1:][:at] + options[:1] + options[1:][at:]
        rows.append(ChoiceItem(str(number), "we use ", tuple(options), " now", at, str(number // 2)))
    return rows


def spans(count):
    """Is the first span a dog? Both animals are in every text, so that only the spans can tell."""
    rows = []
    for number in range(count):
        text = "the dog is there and the key is new , they wait for it"
        label = number % 2
        start = text.index("dog" if label else "key")
        pronoun = text.index("it", text.index("for"))
        rows.append(SpanItem(str(number), text, (start, start + 3), (pronoun, pronoun + 2), label, str(number)))
    return rows
