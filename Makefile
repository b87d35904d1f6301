# Everything that a fresh machine with Python 3.11 needs: `make demo` shows Pleach at work, `make test` checks it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-long lint types imports pytest pytest-brokers pytest-spark bench results reference site clean

# Nine broker processes, a story under load, the verdict and build/demo/report.html: about a minute.
demo: $(STAMP)
	$(BIN)/pleach demo

test: lint types imports pytest

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

# One after the other: real brokers have deadlines, which a JVM beside them on two cores would make them miss.
pytest: pytest-brokers pytest-spark

pytest-brokers: $(STAMP)
	$(BIN)/pytest -m "not spark and not slow"

# Tests on Spark share one JVM, and so one process.
pytest-spark: $(STAMP)
	$(BIN)/pytest -m "spark and not slow" -n 0

# The long form of the property tests and the seeds: two hours or so on two cores.
test-long: $(STAMP)
	PLEACH_THOROUGH=40 $(BIN)/pytest --timeout 0 -m "not spark"
	PLEACH_THOROUGH=40 $(BIN)/pytest --timeout 0 -m spark -n 0
	$(BIN)/python tests/long_run.py contract --seeds 2000 --workers 2
	$(BIN)/python tests/long_run.py overlay --seeds 20000 --workers 2
	$(BIN)/python tests/long_run.py overlay --seeds 5000 --workers 2 --exchange advanced-coordinated
	$(BIN)/python tests/long_run.py exchange --seeds 1000 --workers 2
	$(BIN)/python tests/long_run.py exchange --seeds 1000 --workers 2 --cycles long
	$(BIN)/python tests/long_run.py stabilise --seeds 100 --workers 2
	$(BIN)/python tests/long_run.py coloured --seeds 100 --workers 2
	$(BIN)/python tests/long_run.py coloured --seeds 100 --workers 2 --faultless
	$(BIN)/python tests/long_run.py mobility --seeds 5000 --workers 2

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
