"""Our wheel beside transformers and Hugging Face's `kernels`, in an environment of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-transformers" / "bin" / "python"

pytestmark = pytest.mark.e2e


def run(*arguments: str) -> str:
    """Standard output of a command that must succeed, started outside the checkout."""
    done = subprocess.run(arguments, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Our wheel, in the environment of tests/e2e/transformers_environment.sh."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT))
    (wheel,) = out.glob("*.whl")
    run(
        str(PYTHON), "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", str(wheel)
    )


@pytest.mark.usefixtures("installed")
def test_transformers_still_imports() -> None:
    """It imports from Hugging Face's `kernels`, which a package of that name would overwrite."""
    code = (
        "import kernels, sampler_kernels, sampler_audit\n"
        "from transformers import LlamaForCausalLM\n"
        "print(LlamaForCausalLM.__name__, hasattr(kernels, 'get_kernel'))"
    )
    assert run(str(PYTHON), "-c", code).split() == ["LlamaForCausalLM", "True"]
