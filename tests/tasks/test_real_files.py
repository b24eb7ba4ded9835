"""Every official file is read to its end, if the data sets are there."""

import hashlib
import json

import pytest
from helpers.paths import DATA, FOLDERS, ROOT

from xlnet.tasks import known
from xlnet.tasks.files import forms

OTHER_FOLDERS = {"squad1": "squad", "squad2": "squad", "cmrc2018": "cmrc2018"}
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not there")


# Numbers and digests of the rows as they were read before forms were declared (commit 17ed2656).
DIGESTS = json.loads((ROOT / "tests" / "tasks" / "digests_of_sets.json").read_text())


def digest_of(rows):
    """A digest of the names, texts, labels and queries of rows."""
    digest = hashlib.sha256()
    for row in rows:
        content = json.dumps(
            [row.id, row.pairs, row.label, row.query], ensure_ascii=False
        )
        digest.update(content.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name_and_split", DIGESTS)
def test_public_sets_are_read_as_before(name_and_split):
    name, split = name_and_split.split()
    folder = DATA / {**FOLDERS, **OTHER_FOLDERS}[name]
    task = known.TASKS[name]
    if task.has_labels and not task.labels:
        train = forms.require_file(str(folder), task.files.by_split["train"], "train")
        task = task.from_train_file(train)
    path = forms.find_file(str(folder), task.files.by_split[split])
    form = forms.declared_form(task, path)
    is_labelled = (
        not split.startswith("test")
        or bool(task.files.directory_form)
        or form.header == "none"
        or task.program != "xlnet classify"
    )
    rows = task.read(path, is_labelled)
    assert [len(rows), digest_of(rows)] == DIGESTS[name_and_split]
