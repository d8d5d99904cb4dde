#!/usr/bin/env bash
# Puts a prebuilt libllama (llama.cpp 0.5.0-dev, x86-64, glibc 2.34 or newer) into the folder DIR,
# with its ggml libraries beside it: DIR/libllama.so.
# usage: llama_cpp_environment.sh DIR
set -euo pipefail
package=@node-llama-cpp/linux-x64@3.22.1
[ "$(cat "$1/installed.txt" 2>/dev/null)" = "$package" ] && exit 0
mkdir -p "$1"
archive=$(cd "$1" && npm pack --silent "$package")
tar -xzf "$1/$archive" -C "$1" --strip-components=3 package/bins/linux-x64
rm "$1/$archive"
ln -sf "$(cd "$1" && ls libllama.v*.so)" "$1/libllama.so"
echo "$package" > "$1/installed.txt"
