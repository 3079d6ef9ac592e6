"""What the monitor's tests share: stores on SQLite and on a PostgreSQL cluster of their own."""

import os
import pwd
import shutil
import tempfile

import pytest

try:
    from monitor_data import Cluster, client_of, postgres_bin

    from shiftgauge.monitor.db.store import open_store
except ImportError:  # without the extra `monitor` there is nothing to test here
    collect_ignore_glob = ["test_*.py", "pages/*"]


@pytest.fixture(scope="session")
def cluster():
    bin = postgres_bin()
    if bin is None or not (bin / "initdb").exists():
        pytest.skip("no PostgreSQL here (Debian: apt-get install postgresql)")
    if os.getuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    # Not below pytest's own folder, which only its owner may enter: PostgreSQL runs as another user.
    with tempfile.TemporaryDirectory(prefix="shiftgauge-postgresql-") as folder:
        cluster = Cluster(folder, bin)
        yield cluster
        cluster.stop("immediate")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request):
    return None if request.param == "sqlite" else request.getfixturevalue("cluster").new_database()


@pytest.fixture(scope="session")
def empty_data(tmp_path_factory):
    """The folder of a new monitor on SQLite; a copy of it opens much faster than a new one is made."""
    folder = tmp_path_factory.mktemp("monitor") / "data"
    open_store(folder).close()
    return folder


@pytest.fixture
def store(tmp_path, database, empty_data):
    if database is None:
        shutil.copytree(empty_data, tmp_path / "data")
    store = open_store(tmp_path / "data", database)
    yield store
    store.close()


@pytest.fixture
def lite(tmp_path, empty_data):
    shutil.copytree(empty_data, tmp_path / "lite")
    store = open_store(tmp_path / "lite")
    yield store
    store.close()


@pytest.fixture
def client(store):
    yield from client_of(store)


@pytest.fixture
def lite_client(lite):
    yield from client_of(lite)
