#!/usr/bin/env bash
# On the machine with the GPU: unpacks the parts of bundle.py and writes `env`, to be read by the shell
# that runs programs.
#     bash unpack.sh PARTS TARGET [SITE]     SITE: site-packages of the Python with PyTorch for CUDA 13
set -euo pipefail
parts=$(realpath "$1") target=$2
site=${3:-$(python3 -c 'import torch; print(torch.__path__[0])')/..}
mkdir -p "$target/lib"
cat "$parts"/p* | zstd -dc --long=28 | tar -xf - -C "$target"

link() {        # the name that TensorFlow opens, and the library of CUDA 13 that stands for it
    local found
    found=$(find "$site/" -name "$2" 2>/dev/null | head -n 1)
    [ -n "$found" ] || { echo "unpack.sh: no $2 in $site" >&2; exit 1; }
    ln -sfn "$(realpath "$found")" "$target/lib/$1"
}
link libcublas.so.12 libcublas.so.13
link libcublasLt.so.12 libcublasLt.so.13
link libcufft.so.11 libcufft.so.12
link libcusolver.so.11 libcusolver.so.12
link libcusparse.so.12 libcusparse.so.12
link libcudnn.so.9 libcudnn.so.9
link libnccl.so.2 libnccl.so.2
link libnvJitLink.so.12 libnvJitLink.so.13
nvcc=$target/site/nvidia/cuda_nvcc
chmod +x "$nvcc/bin/ptxas"
cp "$target/site/nvidia/cuda_runtime/lib/libcudart.so.12" "$target/lib"
real=$(dirname "$(realpath "$target/lib/libcublas.so.12")")
cat > "$target/env" << END
export LD_LIBRARY_PATH=$target/lib:$real:\${LD_LIBRARY_PATH:-} PYTHONPATH=$target/site
export PATH=$nvcc/bin:\$PATH XLA_FLAGS=--xla_gpu_cuda_data_dir=$nvcc
export TF_FORCE_GPU_ALLOW_GROWTH=true
END
