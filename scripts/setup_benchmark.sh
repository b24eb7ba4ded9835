#!/usr/bin/env bash
# Makes .venv-benchmark with what --huggingface of benchmarks/run.py and from_python.py and the test
# tests/exchange/test_in_transformers.py need: PyTorch for the CPU, the last transformers 4 (it has
# XLNet), and what its tokenizers read vocabularies with. PYTHON=... chooses the Python, 3.10 or later.
# TORCH_INDEX=... chooses the package index of torch; PyTorch's own has builds without CUDA, which
# the default index may lack; TORCH_INDEX= (empty) takes pip's default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
"${PYTHON:-python3}" -m venv .venv-benchmark
pip=(.venv-benchmark/bin/python -m pip install --disable-pip-version-check --quiet)
"${pip[@]}" ${index:+--index-url "$index"} torch==2.13.0
"${pip[@]}" 'numpy<3' transformers==4.57.3 sentencepiece protobuf
