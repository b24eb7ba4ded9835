"""Blocks of documents: how they are marked, and how they are run."""

import textwrap

import blocks
import pytest
import try_commands
from helpers.paths import ROOT

PAGE = """
# A page

<!-- given
mkdir made
-->

1. in a list

   <!-- run
   data_utils.py --seq_len=8 --reuse_len=4
   -->
   ```bash
   python data_utils.py --save_dir=made
   ```

<!-- fails -->

~~~console
$ cd \\
    nowhere
cd: nowhere: No such file or directory
$ ls
~~~

```text
an answer
```
"""


def test_blocks_and_what_is_said_of_them():
    given, listed, session, answer = blocks.of_page("page.md", PAGE)
    assert given.script() == "mkdir made" and given.place == "page.md:4"
    assert listed.script() == "python data_utils.py --save_dir=made\n"
    assert listed.mark.flags == {"data_utils.py": "--seq_len=8 --reuse_len=4"}
    assert session.mark.kind == "fails" and session.script() == "cd \\\n    nowhere\nls\n"
    assert answer.mark is None and answer.place == "page.md:26"
    assert not any(blocks.fault(block, ROOT) for block in (given, listed, session, answer))


@pytest.mark.parametrize("page, wrong", [
    ("```\nls\n```\n", "a block without a language"),
    ("```bash\nls\n```\n", "not marked"),
    ("<!-- run -->\nwords\n```bash\nls\n```\n", "not marked"),
    ("<!-- running -->\n```bash\nls\n```\n", "not marked"),
    ("<!-- not run -->\n```bash\nls\n```\n", "'not run' without a reason"),
    ("<!-- run by tests/test_nothing.py -->\n```bash\nls\n```\n", "which is no file"),
    ("<!-- run\nls\n-->\n```bash\nls\n```\n", "'ls': expected a program and the flags"),
    ("<!-- run -->\n```console\nls\n```\n", "without a line that begins with"),
    ("<!-- run -->\n```sh\nls\n```\n", "the language is 'sh', write bash"),
])
def test_a_block_that_is_not_marked_as_it_should_be(page, wrong):
    block, = blocks.of_page("page.md", page)
    assert wrong in blocks.fault(block, ROOT)


def test_blocks_are_run_in_order_in_a_copy(tmp_path, capsys):
    page = textwrap.dedent("""
        <!-- given
        mkdir made
        -->
        <!-- run
        print_flags.py --b=2
        -->
        ```bash
        echo 'import sys; print(sys.argv[1:])' > made/print_flags.py
        python made/print_flags.py --a=1 | grep "'--a=1', '--b=2'"
        cd made
        ```
        <!-- run -->
        ```console
        $ ls
        print_flags.py
        $ test ! -e ../tests -a -e ../README.md
        ```
        <!-- fails -->
        ```python
        import xlnet
        xlnet.no_such_name
        ```
        <!-- run -->
        ```bash
        ../.venv/bin/python print_flags.py && false | head -1
        ```
        <!-- not run: it would fail -->
        ```bash
        false
        ```
        """)
    found = list(blocks.of_page("page.md", page))
    assert not any(blocks.fault(block, ROOT) for block in found)
    assert try_commands.try_pages({"page.md": found}, tmp_path) == ["page.md:25"]
    said = capsys.readouterr().out
    assert said.count("as it should") == 4 and "  | []" in said


def test_lines_that_are_shown_and_were_not_printed():
    block, = blocks.of_page(
        "page.md", "<!-- run -->\n```console\n$ train \\\n  --steps=2\nloss 4.25\n...\n"
                   "step 2  lr 1.5e-04\nbest so far\n```\n")
    assert block.not_printed("loss 3.1\nstep 12  lr 9.1e-03\n") == ["best so far"]
    assert block.not_printed("loss 3.1\nbest so far\n") == ["step 2  lr 1.5e-04"]
