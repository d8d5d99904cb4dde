#!/usr/bin/env bash
# Both ends of the supported Triton range, each in a venv that borrows everything else from the
# given one: the interpreter runs from 3.7.1 on, ahead-of-time compilation from 3.6.0 on.
# usage: triton_range.sh VENV
set -euo pipefail
base=$(cd "$1" && pwd)
packages=$("$base/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

borrow() { # version -> path of a python with that Triton
  local venv="$base-triton-$1"
  if [ ! -e "$venv/.ready" ]; then
    "$base/bin/python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet "triton==$1" >&2
    "$venv/bin/python" - "$packages" <<'PY'
import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "zz_borrowed.pth").write_text(
    f"import site; site.addsitedir({sys.argv[1]!r})\n"
)
PY
    touch "$venv/.ready"
  fi
  echo "$venv/bin/python"
}

oldest_interpreted=$(borrow 3.7.1)
"$oldest_interpreted" -c 'import triton; assert triton.__version__ == "3.7.1", triton.__version__'
"$oldest_interpreted" -m pytest tests/kernels -m "not slow" -q -n auto
oldest_compiled=$(borrow 3.6.0)
"$oldest_compiled" -c 'import triton; assert triton.__version__ == "3.6.0", triton.__version__'
"$oldest_compiled" -m pytest tests/kernels/test_compile.py -q
