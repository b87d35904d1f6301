"""What tests of the dashboard share: one browser per module, since nothing else may run a loop beside it."""

import pytest

from support.web.chromium import opened


@pytest.fixture(scope="module")
def browser():
    with opened() as browser:
        yield browser
