"""What an installation owns: nothing that shadows another package, and every module of ours."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("sampler_audit", "sampler_kernels", "sampler_reference", "sampler_scenarios")


@pytest.fixture(scope="session")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every path in a wheel that is built from this checkout, as `pip install` would."""
    # A copy, since building writes into the source tree, and two test processes may build at once.
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in ("sampler_audit", "kernels", "reference", "scenarios"):
        shutil.copytree(ROOT / folder, source / folder)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_owns_only_packages_of_unique_names(wheel_names: list[str]) -> None:
    """No top-level kernels, reference or scenarios: those names belong to others."""
    owned = {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name}
    assert owned == set(OURS)


def test_the_wheel_holds_every_module_and_data_file(wheel_names: list[str]) -> None:
    """What an editable installation would hide: a forgotten subpackage or data file."""
    folders = {ROOT / "sampler_audit": ROOT} | {
        ROOT / parent / package: ROOT / parent
        for parent, package in zip(("kernels", "reference", "scenarios"), OURS[1:], strict=True)
    }
    expected = {
        path.relative_to(base).as_posix()
        for folder, base in folders.items()
        for pattern in ("*.py", "*.npz", "*.json", "py.typed")
        for path in folder.rglob(pattern)
    }
    assert expected <= set(wheel_names)


@pytest.mark.parametrize("name", ["kernels", "reference", "scenarios"])
def test_the_folders_of_the_checkout_are_no_packages(name: str) -> None:
    """With an __init__.py they would shadow packages of others wherever the root is on the path."""
    assert (ROOT / name).is_dir()
    assert not (ROOT / name / "__init__.py").exists()
