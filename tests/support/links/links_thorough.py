"""How long the tests of the links run: PLEACH_THOROUGH is a factor on seeds and examples."""

import os

FACTOR = max(1, int(os.environ.get("PLEACH_THOROUGH", "1")))
