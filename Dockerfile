# The programs, and a server of a model, in containers on the CPU or on NVIDIA GPUs. Both CPU images
# were built by Docker 20.10 with BuildKit and run (docs/how_to/install.md says how); their base was
# Debian 12 with Python 3.13.0, as no registry could be reached. Never tried: GPU=yes.
#
#   docker build -t xlnet .
#   docker run --rm -v "$PWD/out:/data" xlnet                      # the sample, from text to predictions
#   docker run --rm -v "$PWD/data:/data" xlnet run_classifier.py --data_dir=/data ...
#
#   docker build -t xlnet-gpu --build-arg GPU=yes .                # needs NVIDIA's container toolkit
#   docker run --rm --gpus all xlnet-gpu train_gpu.py --device=gpu ...
#
#   docker build -t xlnet-server --target serve .                  # the page and API at port 8501
#   docker run --rm --read-only --tmpfs /tmp -p 127.0.0.1:8501:8501 \
#       -v "$PWD/model:/model:ro" xlnet-server
#
# The library and its packages belong to root: the programs run as user 10001, who can write to /data
# and to temporary files alone. Runs write to directories that are mounted at /data or elsewhere.

# The digest was found in public files of others, as no registry could be reached to look it up.
FROM python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb AS base
ARG GPU=no
LABEL org.opencontainers.image.title="xlnet" \
    org.opencontainers.image.description="XLNet in TensorFlow: pretraining, fine-tuning, prediction" \
    org.opencontainers.image.licenses="Apache-2.0 AND PSF-2.0"

# What is installed changes less often than the code, so it is a layer of its own.
COPY scripts/locked/programs-2.21.txt /tmp/programs.txt
RUN python -m pip install --no-cache-dir --require-hashes -r /tmp/programs.txt \
    && if [ "$GPU" = yes ]; then \
           python -m pip install --no-cache-dir 'tensorflow[and-cuda]==2.21.0'; \
       fi \
    && rm /tmp/programs.txt \
    && useradd --uid 10001 --create-home xlnet && install -d -o xlnet /data

# The library is installed, not copied: there is one of it.
RUN --mount=type=bind,target=/source,rw \
    python -m pip install --no-cache-dir --no-index --no-deps --no-build-isolation /source
WORKDIR /xlnet
COPY data_utils.py train_gpu.py run_classifier.py run_squad.py run_tagger.py ./
COPY scripts/run_sample.py scripts/recipes.py scripts/
COPY LICENSE THIRD_PARTY.md ./
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001

# Serves the model directory /model. tensorflow-text is left out: the server tokenizes by itself.
FROM base AS serve
EXPOSE 8501
HEALTHCHECK --start-period=120s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/health', timeout=9)"]
ENTRYPOINT ["python", "-m", "xlnet", "serve", "--host=0.0.0.0", "--name=model"]
CMD ["--model_dir=/model"]

# The programs, what is built if no target is named.
FROM base AS programs
ENTRYPOINT ["python"]
CMD ["scripts/run_sample.py", "--out_dir=/data/sample_run"]
