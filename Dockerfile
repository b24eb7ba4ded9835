# The two commands in a container, on the CPU or on NVIDIA GPUs. Written by the manual and checked by
# a test of its files and commands; it was never built, as no Docker was at hand.
#
#   docker build -t xlnet .
#   docker run --rm xlnet                                          # the sample, from text to predictions
#   docker run --rm xlnet bash scripts/run_tests.sh                # the tests
#   docker run --rm -v "$PWD/data:/data" xlnet python run_classifier.py --data_dir=/data ...
#
#   docker build -t xlnet-gpu --build-arg GPU=yes .                # needs NVIDIA's container toolkit
#   docker run --rm --gpus all xlnet-gpu python train_gpu.py --device=gpu ...
FROM python:3.13-slim-bookworm
ARG GPU=no

RUN useradd --create-home xlnet && install -d -o xlnet /xlnet
USER xlnet
WORKDIR /xlnet

# What is installed changes less often than the code, so it is a layer of its own.
COPY --chown=xlnet scripts/setup.sh scripts/setup.sh
COPY --chown=xlnet scripts/locked scripts/locked
RUN PIP_NO_CACHE_DIR=1 bash scripts/setup.sh \
    && if [ "$GPU" = yes ]; then \
           .venv/bin/python -m pip install --no-cache-dir 'tensorflow[and-cuda]==2.21.0'; \
       fi

COPY --chown=xlnet . .
ENV PATH=/xlnet/.venv/bin:$PATH
CMD ["bash", "scripts/run_sample.sh"]
