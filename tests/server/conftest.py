"""What tests of a broker node share."""

import pytest

from pleach.server.storage.store import Store


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def store(request, tmp_path):
    """Of broker b, which most tests of a node are about; modules that need another have their own."""
    if not request.param:
        yield None
        return
    with Store.open(tmp_path, "b", epoch=1) as opened:
        yield opened
