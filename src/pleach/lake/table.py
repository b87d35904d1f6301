"""A table of a lake: its declared columns, its runs, and checks of their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pleach.errors import LakeError
from pleach.lake.arrow import load_arrow
from pleach.lake.manifest import FOLDER_PREFIX, Manifest, Part, columns_of, load_manifest, remedy, run_folder


@dataclass(frozen=True)
class Table:
    lake: Path
    name: str
    columns: Mapping[str, str]  # name → Arrow's name for the type, or list<…>

    @property
    def folder(self) -> Path:
        return self.lake / self.name

    def manifest(self, run: str) -> Manifest | None:
        """What is committed of a run, complete or not; its files are not read."""
        return load_manifest(run_folder(self.folder, run))

    def runs(self, *, unfinished: bool = False) -> list[Manifest]:
        """The runs that can be read, in order of their names; with `unfinished`, also those that may still grow."""
        folders = sorted(self.folder.glob(f"{FOLDER_PREFIX}*"))
        known = [manifest for folder in folders if (manifest := load_manifest(folder))]
        return [manifest for manifest in known if manifest.complete or unfinished]

    def files(self, runs: Collection[str] | None = None, *, unfinished: bool = False) -> list[Path]:
        """The files of these runs, or of all, after a check of each against its manifest."""
        known = {manifest.run: manifest for manifest in self.runs(unfinished=unfinished)}
        missing = sorted(set(runs or ()) - known.keys())
        if missing:
            raise LakeError(f"{self.folder}: has no finished run {missing[0]!r}; it has {_some(sorted(known))}")
        chosen = known if runs is None else {run: known[run] for run in sorted(runs)}
        return [file for manifest in chosen.values() for file in self.checked(manifest)]

    def checked(self, manifest: Manifest) -> list[Path]:
        folder = run_folder(self.folder, manifest.run)
        if manifest.columns != dict(self.columns):
            raise LakeError(f"{folder}: {difference(manifest.columns, self.columns)}; {remedy(folder)}")
        return check_run(folder, manifest)


def check_run(folder: Path, manifest: Manifest) -> list[Path]:
    """The files of a run; raises LakeError at the first that is missing, cut, damaged or of other columns."""
    return [_check_part(folder, manifest, part) for part in manifest.parts]


def _check_part(folder: Path, manifest: Manifest, part: Part) -> Path:
    path = folder / part.name
    if not path.is_file():
        raise LakeError(f"{path}: is missing, and the manifest lists it; {remedy(folder)}")
    size = path.stat().st_size
    if size != part.bytes:
        raise LakeError(f"{path}: has {size:,} bytes, the manifest says {part.bytes:,}; {remedy(folder)}")
    arrow = load_arrow()
    try:
        found = arrow.parquet.read_metadata(path)
    except (OSError, arrow.ArrowException) as error:
        raise LakeError(f"{path}: cannot be read as Parquet: {error}; {remedy(folder)}") from None
    if found.num_rows != part.rows:
        raise LakeError(f"{path}: has {found.num_rows:,} rows, the manifest says {part.rows:,}; {remedy(folder)}")
    columns = columns_of(found.schema.to_arrow_schema())
    if columns != manifest.columns:
        raise LakeError(f"{path}: {difference(columns, manifest.columns)}; {remedy(folder)}")
    return path


def difference(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """The first column that is not as declared."""
    for name, kind in wanted.items():
        if found.get(name) != kind:
            return f"column {name!r} is {found.get(name, 'missing')}, and the table declares {kind}"
    extra = next(name for name in found if name not in wanted)
    return f"column {extra!r} is not declared"


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f", … {len(names):,} in all" if len(names) > 5 else "") or "none"
