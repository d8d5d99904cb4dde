#!/usr/bin/env bash
# Makes the virtual environment VENV in which vLLM's top-k/top-p can be imported, for the e2e tests:
#     bash tests/e2e/vllm_environment.sh VENV
# Does nothing when it is there already. torch is the CPU build wherever pip finds one.
set -eu
list="$(dirname "$0")/vllm_environment.txt"
cmp --silent "$list" "$1/installed.txt" && exit 0
"${PYTHON:-python3}" -m venv "$1"
"$1/bin/python" -m pip install --quiet --no-deps -r "$list"
cp "$list" "$1/installed.txt"
