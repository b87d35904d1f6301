"""The lake: tables of runs, kept as Parquet files that a manifest vouches for.

    <lake>/traces/run=<name>/part-00000.parquet …      the rows
                             _manifest.json            which files count, what they are, where they come from
    <lake>/results/run=<name>/…

Rule 1: a file counts if the manifest of its run lists it, and only then. The manifest is replaced as a whole after each
        part, so that whoever reads sees all of a part or nothing, and never a run that is half written.
Rule 2: a table declares its columns; every file has exactly these.
Rule 3: one writer per run at a time. The lock dies with its process; what that process had committed stays, and the
        next writer goes on from there.

arrow.py      pyarrow, when it is needed
manifest.py   what is known of a run without opening its files
table.py      a table: its columns, its runs, what is wrong with them
writer.py     appends to a run, part by part
version.py    which code wrote it
"""

from pleach.lake.manifest import Manifest, Part
from pleach.lake.table import Table, check_run
from pleach.lake.version import code_version
from pleach.lake.writer import RunWriter, WriteMode, open_run

__all__ = ["Manifest", "Part", "RunWriter", "Table", "WriteMode", "check_run", "code_version", "open_run"]
