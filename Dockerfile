# The programs, and a server of a model, in containers on the CPU or on NVIDIA GPUs. Written by the
# manual and checked by a test of its files and commands; it was never built, as no Docker daemon was
# available.
#
#   docker build -t xlnet .
#   docker run --rm xlnet                                          # the sample, from text to predictions
#   docker run --rm xlnet bash scripts/run_tests.sh                # the tests
#   docker run --rm -v "$PWD/data:/data" xlnet python run_classifier.py --data_dir=/data ...
#
#   docker build -t xlnet-gpu --build-arg GPU=yes .                # needs NVIDIA's container toolkit
#   docker run --rm --gpus all xlnet-gpu python train_gpu.py --device=gpu ...
#
#   docker build -t xlnet-server --target serve .                  # the page and API at port 8501
#   docker run --rm -p 127.0.0.1:8501:8501 -v "$PWD/model:/model:ro" xlnet-server
FROM python:3.13-slim-bookworm AS base
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

# Serves the model directory /model.
FROM base AS serve
RUN .venv/bin/python -m pip install --no-cache-dir '.[serve]'
EXPOSE 8501
HEALTHCHECK --start-period=120s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/health', timeout=9)"]
ENTRYPOINT ["python", "-m", "xlnet", "serve", "--host=0.0.0.0", "--name=model"]
CMD ["--model_dir=/model"]

# The programs, what is built if no target is named.
FROM base AS programs
CMD ["bash", "scripts/run_sample.sh"]
