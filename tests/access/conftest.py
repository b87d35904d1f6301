from __future__ import annotations

from pathlib import Path

import pytest

from pleach.access.certificate_directory import CertificateDirectory


@pytest.fixture
def network(tmp_path: Path) -> CertificateDirectory:
    return CertificateDirectory.create(tmp_path / "certs", "acme", 10)
