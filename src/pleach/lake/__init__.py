"""The lake: tables of runs, stored as Parquet files that manifests list.

    <lake>/traces/run=<name>/part-00000.parquet …      the rows
                             _manifest.json            the list of files, their sizes, their origin
    <lake>/results/run=<name>/…

Rule 1: a file counts if the manifest of its run lists it, and only then. The manifest is replaced as a whole after each
        part, so that readers see all of a part or nothing.
Rule 2: a table declares its columns; every file has exactly these.
Rule 3: one writer per run at a time. The lock ends with its process; committed parts stay, and the next writer
        appends to them.

arrow.py      pyarrow, loaded on demand
manifest.py   the manifest of a run
table.py      a table: its columns, its runs, their checks
writer.py     appends to a run, part by part
version.py    the version of the code that wrote it

Imports core/ and pyarrow.
"""

from pleach.lake.manifest import Manifest, Part
from pleach.lake.table import Table, check_run
from pleach.lake.version import code_version
from pleach.lake.writer import RunWriter, WriteMode, open_run

__all__ = ["Manifest", "Part", "RunWriter", "Table", "WriteMode", "check_run", "code_version", "open_run"]
