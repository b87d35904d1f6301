# Everything that a fresh machine with Python 3.11 needs: `make demo` shows Pleach at work, `make check` and `make test`
# check it (CONTRIBUTING.md says what is in which).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Parts that have no deadlines run side by side; each prints what it has to say when it is done.
TOGETHER := $(MAKE) --no-print-directory --jobs 2 --output-sync=target

.PHONY: demo soak check test test-long lint types imports pytest-quick pytest-pure pytest-spark pytest-live \
	bench results reference site clean

# Nine broker processes, a story under load, the verdict and build/demo/report.html: about a minute.
demo: $(STAMP)
	$(BIN)/pleach demo

# Nine brokers with everything on, half an hour of whatever happens to networks, and build/soak/soak.md. `--replay` repeats it.
soak: $(STAMP)
	$(BIN)/pleach soak --hours 0.5 --out build/soak/$$(date +%Y%m%d-%H%M%S)

# Lint, types, imports, and tests without processes, Spark or browser, a few cases of each: three minutes on two cores.
check: $(STAMP)
	$(TOGETHER) pytest-quick types lint imports

# What a change must pass: seventeen minutes on two cores. Real brokers have deadlines, which a JVM beside them would make them
# miss: they come last, and alone.
test: $(STAMP)
	$(TOGETHER) pytest-spark types lint imports pytest-pure
	$(MAKE) --no-print-directory pytest-live

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

pytest-quick: $(STAMP)
	$(BIN)/pytest --quick

# Tests that compute, and wait for nothing.
pytest-pure: $(STAMP)
	$(BIN)/pytest -m "not live and not browser and not spark and not slow"

# Tests on Spark share one JVM, and so one process.
pytest-spark: $(STAMP)
	$(BIN)/pytest -m "spark and not slow" -n 0

# Tests of processes, daemons and pages in a browser: they wait more than they compute.
pytest-live: $(STAMP)
	$(BIN)/pytest -m "(live or browser) and not spark and not slow" -n 3

# The long form of the property tests and the seeds: two hours or so on two cores.
test-long: $(STAMP)
	PLEACH_THOROUGH=40 $(BIN)/pytest --timeout 0 -m "not spark"
	PLEACH_THOROUGH=40 $(BIN)/pytest --timeout 0 -m spark -n 0
	$(BIN)/python tests/long_run.py contract --seeds 2000
	$(BIN)/python tests/long_run.py overlay --seeds 20000
	$(BIN)/python tests/long_run.py overlay --seeds 5000 --exchange advanced-coordinated
	$(BIN)/python tests/long_run.py exchange --seeds 1000
	$(BIN)/python tests/long_run.py exchange --seeds 1000 --cycles long
	$(BIN)/python tests/long_run.py stabilise --seeds 100
	$(BIN)/python tests/long_run.py coloured --seeds 100
	$(BIN)/python tests/long_run.py coloured --seeds 100 --faultless
	$(BIN)/python tests/long_run.py mobility --seeds 5000

bench: $(STAMP)
	$(BIN)/pleach bench match
	$(BIN)/pleach bench cover
	$(BIN)/pleach bench sim

# Every figure of the papers, with the page beside them: minutes per experiment; goes on where it was.
results: $(STAMP)
	$(BIN)/pleach lab run --size usual
	$(BIN)/pleach lab report --size usual

# What the reference has of settings, commands and metrics, made anew from the code.
reference: $(STAMP)
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/rooms.py
	$(BIN)/python tools/matrix.py

# The documents as a site, in build/site; a link that leads nowhere is an error.
site: $(STAMP)
	$(BIN)/python tools/site_of_documents.py

$(STAMP): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
