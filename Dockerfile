# The command in a container:
#   docker build --tag labelfree .
#   docker run --rm --volume "$PWD:/data" labelfree estimate val.npz new.npz
FROM python:3.12-slim AS build
WORKDIR /build
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m build --wheel --outdir dist

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/build/dist,target=/dist pip install --no-cache-dir /dist/*.whl
# Machine code is compiled once, while the image is built, and kept where whoever runs it may read and write.
ENV NUMBA_CACHE_DIR=/var/cache/labelfree MPLCONFIGDIR=/var/cache/labelfree
RUN mkdir /var/cache/labelfree && labelfree warm-up && chmod -R a+rwX /var/cache/labelfree
RUN useradd --create-home labelfree
USER labelfree
WORKDIR /data
ENTRYPOINT ["labelfree"]
CMD ["--help"]
