"""Laws: tests of settings and data that hypothesis samples."""

import os

import hypothesis


def law(few, many, **strategies):
    """A test of `few` examples, the same in each run; with XLNET_TEST_ALL=1 of `many` new ones."""
    is_all = bool(os.environ.get("XLNET_TEST_ALL"))
    settings = hypothesis.settings(
        max_examples=many if is_all else few,
        derandomize=not is_all,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    return lambda test: settings(hypothesis.given(**strategies)(test))
