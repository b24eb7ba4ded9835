#!/usr/bin/env bash
# Makes the environments of what this library is compared with:
#   bash scripts/setup_benchmark.sh                       Hugging Face
#   bash scripts/setup_benchmark.sh huggingface kerashub  both
#
# huggingface: .venv-benchmark, for --huggingface of benchmarks/run.py and the test
# tests/convert/test_in_transformers.py: PyTorch for the CPU, transformers 5 (it has XLNet),
# and what its tokenizers read vocabularies with. TORCH_INDEX=... chooses the package index of torch;
# PyTorch's own has builds without CUDA, which the default index may lack; TORCH_INDEX= (empty) takes
# pip's default.
# kerashub: .venv-kerashub, for --kerashub of benchmarks/run.py, on TensorFlow and on JAX.
#
# PYTHON=... chooses the Python, 3.11 or later.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment() {  # DIRECTORY: makes it; afterwards pip installs into it
    "${PYTHON:-python3}" -m venv "$1"
    pip=("$1/bin/python" -m pip install --disable-pip-version-check --quiet)
}

huggingface() {
    local index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
    environment .venv-benchmark
    "${pip[@]}" ${index:+--index-url "$index"} torch==2.14.1
    "${pip[@]}" 'numpy<3' transformers==5.24.0 sentencepiece protobuf
}

kerashub() {
    environment .venv-kerashub
    "${pip[@]}" keras-hub==0.32.0 tensorflow==2.21.0 jax==0.10.2
}

for system in "${@:-huggingface}"; do
    case $system in
    huggingface | kerashub) "$system" ;;
    *)
        echo "setup_benchmark.sh: no system '$system' (there are huggingface, kerashub)" >&2
        exit 1
        ;;
    esac
done
