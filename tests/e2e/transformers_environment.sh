#!/usr/bin/env bash
# An environment with transformers, Hugging Face's `kernels` and our wheel side by side.
# usage: transformers_environment.sh VENV
set -euo pipefail
venv=$1
[ -e "$venv/.ready" ] && exit 0
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.20.0 kernels==0.17.2
touch "$venv/.ready"
