#!/usr/bin/env bash
# Both ends of the supported Triton range, each in a venv that borrows everything else from the
# given one: the interpreter runs from 3.7.1 to 3.9.0, ahead-of-time compilation from 3.6.0 on.
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

at() { # version -> path of a python that really has it
  local python
  python=$(borrow "$1")
  "$python" -c "import triton; assert triton.__version__ == '$1', triton.__version__"
  echo "$python"
}

"$(at 3.7.1)" -m pytest tests/kernels -m "not slow" -q -n auto
"$(at 3.6.0)" -m pytest tests/kernels/test_compile.py -q
# Beside a CPU build of torch the given environment has the newest already, and `make check` ran it.
newest=3.9.0
has=$("$base/bin/python" -c 'import triton; print(triton.__version__)')
if [ "$has" != "$newest" ]; then
  "$(at $newest)" -m pytest tests/kernels -q -n auto
fi
