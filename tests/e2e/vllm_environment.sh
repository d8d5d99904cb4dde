#!/usr/bin/env bash
# Makes the virtual environment VENV for the e2e tests: vLLM's samplers can be imported there, and
# its server run on the CPU with the model in VENV/smollm2:
#     bash tests/e2e/vllm_environment.sh VENV
# Does nothing when it is there already. torch is the CPU build wherever pip finds one.
set -eu
list="$(dirname "$0")/vllm_environment.txt"
cmp --silent "$list" "$1/installed.txt" && exit 0
"${PYTHON:-python3}" -m venv "$1"
"$1/bin/python" -m pip install --quiet --no-deps -r "$list"
TQDM_DISABLE=1 "$1/bin/python" "$(dirname "$0")/smollm2_model.py" "$1/smollm2"
cp "$list" "$1/installed.txt"
