# The command and the monitor in one image:
#   docker build --tag shiftgauge .
#   docker run --rm --volume "$PWD:/data" shiftgauge estimate val.npz new.npz
# deploy/compose.yaml starts the monitor from it.
FROM python:3.12-slim AS build
WORKDIR /build
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m build --wheel --outdir dist

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/build/dist,target=/dist \
  wheel=$(ls /dist/*.whl) && pip install --no-cache-dir "$wheel[monitor,notify]"
# Machine code is compiled once, while the image is built, and kept where whoever runs it may read and write.
ENV NUMBA_CACHE_DIR=/var/cache/shiftgauge MPLCONFIGDIR=/var/cache/shiftgauge
RUN mkdir /var/cache/shiftgauge && shiftgauge warm-up && chmod -R a+rwX /var/cache/shiftgauge
RUN useradd --system --uid 10001 --create-home shiftgauge && mkdir /data && chown shiftgauge /data
USER shiftgauge
WORKDIR /data
EXPOSE 8123
ENTRYPOINT ["shiftgauge"]
CMD ["--help"]
