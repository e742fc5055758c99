"""Generates the Python of the wire from the .proto files beside this script.

The results are checked in, so that an installation needs no compiler. A contract is compiled under
the path of the package that receives it: protoc then writes `from nri_coloc._pb import …` by itself,
and no generated text is edited afterwards.

    python api/generate.py            writes the generated files
    python api/generate.py --check    writes nothing; exits 1 and names every file that differs
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


class Contract(NamedTuple):
    proto: str
    package: str
    grpc: bool = False

    @property
    def source(self) -> Path:
        return ROOT / "api" / self.proto

    def products(self) -> list[str]:
        stem = f"{self.package}/{self.source.stem}_pb2"
        return [f"{stem}.py", f"{stem}.pyi", *([f"{stem}_grpc.py"] if self.grpc else [])]


CONTRACTS = (
    Contract("nri/v1alpha1/nri.proto", "nri_coloc/_pb"),
    Contract("nri/v1alpha1/told.proto", "nri_coloc/_pb"),
    Contract("ttrpc/ttrpc.proto", "nri_coloc/ttrpc/_pb"),
    Contract("cri/v1/cri.proto", "nri_coloc/_pb", grpc=True),
    Contract("admin/v1/admin.proto", "nri_coloc/_pb", grpc=True),
    Contract("cluster/v1/cluster.proto", "nri_coloc/_pb"),
)


def present() -> list[Contract]:
    return [contract for contract in CONTRACTS if contract.source.exists()]


def generate(contract: Contract, into: Path) -> None:
    """Write the products of one contract under `into`, a folder in the place of the project's root."""
    arguments = [
        f"--proto_path={contract.package}={contract.source.parent}",
        f"--python_out={into}",
        f"--pyi_out={into}",
        *([f"--grpc_python_out={into}"] if contract.grpc else []),
        f"{contract.package}/{contract.source.name}",
    ]
    if protoc.main(["protoc", *arguments]) != 0:
        sys.exit(f"protoc refused {contract.proto}")


def differing(into: Path) -> list[str]:
    names = [name for contract in present() for name in contract.products()]
    return [name for name in names if not _same(into / name, ROOT / name)]


def _same(fresh: Path, stored: Path) -> bool:
    return stored.exists() and stored.read_bytes() == fresh.read_bytes()


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) if arguments else ROOT
        for contract in present():
            generate(contract, into)
        stale = differing(into)
    for name in stale:
        print(f"{name} differs from what its .proto generates; run: make generate", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
