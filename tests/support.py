"""``docs/support.md``: with which Spark, store of checkpoints, login and replicator Tideover was tried, and by what.

Each cell names its tests, and how real their parts are. ``python -m tests.support write`` prints the page again.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "support.md"


class How(StrEnum):
    """What a cell rests on."""

    REAL = "tested on real parts"
    STAND_IN = "tested against a stand-in"
    READ = "read"
    REFUSED = "refused"
    NOT = "not tried"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, and what it rests on: tests as ``file::name``, or a sentence."""

    how: How
    tests: Sequence[str] = ()
    note: str = ""


COLUMNS = ("companion", "local disk", "`hdfs`", "S3 by Hadoop's connector", "`abfs`", "`gs`", "EMRFS")
_VENDOR = "tests/real/test_spark_builds.py::test_a_build_with_a_vendors_version_gets_the_companion"
_MOVE = "tests/real/test_switch.py::test_a_move_and_the_way_back_keep_checkpoint_and_query_id"
_RACE = "tests/real/test_object_store.py::test_of_eight_writers_exactly_one_gets_the_name"
_RACES = "tests/long/test_object_store.py::test_of_eight_writers_exactly_one_gets_the_name"
_LOST = "tests/real/test_object_store.py::test_a_create_whose_answer_was_lost_is_won"
_QUERY = "tests/long/test_object_store.py::test_a_query_whose_checkpoint_is_there_goes_to_the_standby_and_back"
_CLASS = "tests/real/test_object_store.py::test_another_scheme_of_the_same_connector_is_as_safe"
_STORES = "tests/real/test_stores.py::test_a_query_on_each_store_goes_to_the_standby"
_HDFS = Cell(
    How.REAL,
    (
        "tests/real/test_hdfs.py::test_of_eight_writers_exactly_one_gets_the_name",
        "tests/real/test_hdfs.py::test_a_create_whose_answer_was_lost_is_won",
        "tests/real/test_hdfs.py::test_a_stale_run_writes_nothing_behind_a_fence",
        _STORES,
    ),
    "a NameNode and a DataNode of Hadoop 3.5.0 in one process, without Kerberos; the client is that of this Spark",
)
_HDFS_READ = Cell(How.READ, note="Hadoop's rename without overwriting is one step on HDFS (`FSDirRenameOp`)")
_LAKE_RACE = "tests/real/test_data_lake.py::test_of_eight_writers_exactly_one_gets_the_name"
_LAKE_LOST = "tests/real/test_data_lake.py::test_a_create_whose_answer_was_lost_is_won"
_LAKE_FENCE = "tests/real/test_data_lake.py::test_a_stale_run_writes_nothing_behind_a_fence"


def _lake(hadoop: str) -> Cell:
    return Cell(
        How.STAND_IN,
        (_LAKE_RACE, _LAKE_LOST, _LAKE_FENCE, _STORES),
        f"Hadoop's client {hadoop}, which sends `If-None-Match: *` with each rename; the service is a small server "
        "of the tests. No emulator has a hierarchical namespace, and Microsoft's own service was not tried",
    )


_LAKE_READ = Cell(How.READ, note="its client renames with `If-None-Match: *` as well (`AbfsClient.renamePath`)")
_GOOGLE = (
    "tests/real/test_cloud_storage.py::test_of_eight_writers_exactly_one_gets_the_name",
    "tests/real/test_cloud_storage.py::test_a_create_whose_answer_was_lost_is_won",
    "tests/real/test_cloud_storage.py::test_a_stale_run_writes_nothing_behind_a_fence",
    _STORES,
)


def _google(version: str) -> Cell:
    return Cell(
        How.STAND_IN,
        _GOOGLE,
        f"Google's connector {version}, by generation 0; the service is an emulator (`fake-gcs-server`), and Google's "
        "own was not tried",
    )


_GOOGLE_READ = Cell(How.READ, note="every connector since 2.2 has the client that is used")
_OTHERS = Cell(How.REFUSED, (_CLASS,), "by the class or the scheme, before anything is hosted")
_DISK = Cell(How.REAL, (_MOVE,))
_LOADED = Cell(
    How.REAL,
    (_VENDOR,),
    "compiled against its jars; every part that is used is looked up, and its manager writes a log",
)


def _s3(hadoop: str, way: str, *more: str) -> Cell:
    return Cell(
        How.STAND_IN, (_RACE, _LOST, _STORES, *more), f"Hadoop {hadoop}, {way}; the server is Versity's gateway"
    )


ROWS: Mapping[str, Sequence[Cell]] = {
    "PySpark 3.4.4": (
        _LOADED, _DISK, _HDFS, _s3("3.3.4", "version 1 of Amazon's SDK"), _lake("3.3.4"), _google("2.2.33"),
        _OTHERS,
    ),
    "PySpark 3.5.7": (
        _LOADED, _DISK, _HDFS, _s3("3.3.4", "version 1 of Amazon's SDK"), _lake("3.3.4"), _google("2.2.33"),
        _OTHERS,
    ),
    "PySpark 4.0.0": (
        _LOADED, _DISK, _HDFS, _s3("3.4.1", "version 2 of Amazon's SDK"), _lake("3.4.1"), _google("3.1.15"),
        _OTHERS,
    ),
    "PySpark 4.1.2": (
        _LOADED, _DISK, _HDFS, _s3("3.4.2", "by its own conditional create"), _lake("3.4.2"), _google("3.1.15"),
        _OTHERS,
    ),
    "PySpark 4.2.0": (
        _LOADED, _DISK, _HDFS, _s3("3.5.0", "by its own conditional create", _RACES, _QUERY), _lake("3.5.0"),
        _google("4.0.4"), _OTHERS,
    ),
    "another patch of these": (
        Cell(How.READ, note="looked up when it starts; 3.5.0 was tried by hand"), Cell(How.NOT), _HDFS_READ,
        Cell(How.NOT), _LAKE_READ, _GOOGLE_READ, _OTHERS,
    ),
    "a vendor's build": (
        Cell(How.STAND_IN, (_VENDOR,), "an Apache build with a vendor's version"), Cell(How.NOT), _HDFS_READ,
        Cell(How.NOT), _LAKE_READ, _GOOGLE_READ, _OTHERS,
    ),
}  # fmt: skip

JAVA_COLUMNS = ("companion", "an application that moves in its run")
_ATTACHED = "tests/real/test_attached.py::test_a_killed_attendant_comes_back_and_moves_the_run"
_FITS = "tests/contract/test_companion_java.py::test_the_companion_fits_an_older_spark_on_an_older_java"
_OLD_MOVE = "tests/real/test_old_java.py::test_a_query_of_a_job_on_an_older_java_moves_in_its_run"
_NO_8 = ". Skipped where there is no Java 8; here it was Debian's 8u504"
_LOOKED_UP = "each class is loaded, and every part of Spark 3.4.4 and 3.5.7 that it uses is looked up in their jars"

JAVAS: Mapping[str, Sequence[Cell]] = {
    "Java 17": (_LOADED, Cell(How.REAL, (_ATTACHED,), "PySpark 4.2.0")),
    "Java 11, with Spark 3.5": (
        Cell(How.REAL, (_FITS,), _LOOKED_UP), Cell(How.REAL, (_OLD_MOVE,), "PySpark 3.5.7 on Temurin 11.0.13"),
    ),
    "Java 8, with Spark 3.5": (
        Cell(How.REAL, (_FITS,), _LOOKED_UP + _NO_8), Cell(How.REAL, (_OLD_MOVE,), "PySpark 3.5.7" + _NO_8),
    ),
}  # fmt: skip

LOGIN_COLUMNS = ("probes, look-ups, tracking", "sources and sinks of Spark, with a failover")
_MTLS = "tests/real/test_link_security.py::test_mutual_tls_with_an_encrypted_key"
_SASL = "tests/real/test_link_security.py::test_sasl_with_the_right_password"
_SECURED = "tests/real/test_standalone.py::test_a_query_keeps_its_checkpoint_when_it_moves_on_a_standalone_cluster"
_TOKEN = "tests/real/test_tokens.py::test_a_token_serves_many_logins_and_is_replaced_before_it_ends"
_TOKEN_MOVE = "tests/real/test_tokens.py::test_a_query_moves_from_a_password_to_tokens"
_IAM = "tests/real/test_msk.py::test_a_signed_login_passes_and_a_wrong_key_or_region_is_ours"
_IAM_MOVE = "tests/real/test_msk.py::test_a_query_moves_from_a_certificate_and_a_password_to_signatures"
_TICKET = "tests/real/test_kerberos.py::test_a_key_table_is_enough_and_a_wrong_one_is_ours"
_TICKET_MOVE = "tests/real/test_kerberos.py::test_a_query_moves_between_clusters_that_want_tickets"
_PROVIDER = "the token provider is a small server of the tests, the brokers are real"
_GATE = "a gate of the tests computes each signature again; Amazon's libraries sign, and the brokers behind it are real"
_KDC = "a real KDC (MIT); skipped where there is none"

LOGINS: Mapping[str, Sequence[Cell]] = {
    "client certificate (mutual TLS)": (
        Cell(How.REAL, (_MTLS,)),
        Cell(How.REAL, (_SECURED, _IAM_MOVE), "alone, from a cluster that wants it; and beside a password of SCRAM"),
    ),
    "SCRAM": (
        Cell(How.REAL, (_SECURED,)),
        Cell(How.REAL, (_SECURED, _IAM_MOVE), "to a cluster that wants it; and from one that wants a certificate, too"),
    ),
    "PLAIN": (Cell(How.REAL, (_SASL,)), Cell(How.REAL, (_TOKEN_MOVE,), "from a cluster that wants it")),
    "OAUTHBEARER, client credentials": (
        Cell(How.STAND_IN, (_TOKEN,), _PROVIDER),
        Cell(How.STAND_IN, (_TOKEN_MOVE,), f"to a cluster that wants it; {_PROVIDER}"),
    ),
    "AWS_MSK_IAM": (
        Cell(How.STAND_IN, (_IAM,), _GATE),
        Cell(How.STAND_IN, (_IAM_MOVE,), f"to a cluster that wants it; {_GATE}"),
    ),
    "GSSAPI (Kerberos)": (Cell(How.REAL, (_TICKET,), _KDC), Cell(How.REAL, (_TICKET_MOVE,), _KDC)),
}

REPLICATOR_COLUMNS = ("failover", "switchover", "failback")
_KILL = "tests/real/test_carries.py::test_the_controller_moves_every_query_at_a_random_moment_of_a_kill"
_PLANNED = "tests/real/test_switchover.py::test_a_switchover_under_load_loses_and_repeats_nothing"
_HOME = "tests/real/test_failback.py::test_queries_come_home_exactly_and_the_tail_is_listed_whole"
_KEPT = "tests/real/test_places_on_brokers.py::test_a_standby_that_copies_bytes_is_resumed_at_the_same_offset"
_NOT_KEPT = (
    "tests/real/test_places_on_brokers.py::test_a_route_that_is_wrongly_said_to_keep_offsets_is_resumed_by_content"
)
_SAME = "tests/real/test_same_offsets.py::test_a_planned_move_and_the_way_home_keep_every_offset"
_COPIED = "the tests write the copies of the standby"

REPLICATORS: Mapping[str, Sequence[Cell]] = {
    "MirrorMaker 2": (Cell(How.REAL, (_KILL,)), Cell(How.REAL, (_PLANNED,)), Cell(How.REAL, (_HOME,))),
    "one that keeps offsets (Cluster Linking, Shadowing, cluster mirroring)": (
        Cell(How.STAND_IN, (_KEPT, _NOT_KEPT), _COPIED), Cell(How.STAND_IN, (_SAME,), _COPIED),
        Cell(How.STAND_IN, (_SAME,), _COPIED),
    ),
    "MSK Replicator": (Cell(How.NOT), Cell(How.NOT), Cell(How.NOT)),
}  # fmt: skip

EXTERNAL_COLUMNS = ("local disk", "`hdfs`", "S3 by Hadoop's connector", "`abfs`")
_EXTERNAL = "tests/real/test_external.py::test_an_application_of_two_queries_is_moved_and_moved_back"
_OVER = "tests/contract/test_checkpoint_files.py::test_a_file_of_hdfs_is_replaced_by_a_rename_over_it"
_OVER_HDFS = Cell(
    How.READ, (_OVER,),
    "a rename over a file is one step on HDFS (`FSDirRenameOp.unprotectedRenameTo`); the test makes it on a local disk",
)  # fmt: skip
_PUT = Cell(How.STAND_IN, (_EXTERNAL,), "the server is versitygw; one of two queries of the application is there")
_LAKE_REFUSED = "tests/real/test_data_lake.py::test_an_application_without_the_jar_is_refused_there"
_LAKE_REWRITE = Cell(
    How.REFUSED,
    (_LAKE_REFUSED,),
    "before anything is hosted: no file is replaced in one step there, and offsets are rewritten",
)

EXTERNALS: Mapping[str, Sequence[Cell]] = {
    version: (Cell(How.REAL, (_EXTERNAL,)), _OVER_HDFS, _PUT, _LAKE_REWRITE) for version in ("3.5.7", "4.0.0", "4.2.0")
}  # fmt: skip

MANAGER_COLUMNS = ("proof that a lost driver has ended", "an attached driver", "`inventory --from`")
_EXIT = "tests/real/test_yarn.py::test_the_end_of_an_attempt_is_proven_by_its_exit_code"
_LOST_NODE = "tests/real/test_yarn.py::test_the_attempt_of_a_lost_node_is_not_over"
_ATTEMPT = "tests/long/test_yarn_attached.py::test_the_next_attempt_reads_where_the_query_was_moved"
_PROOF = "tests/unit/streaming/spark/masters/test_proof.py"
_LISTED = "tests/unit/streaming/spark/masters/test_standalone.py::test_applications_are_listed_and_have_no_address"
_HISTORY = "tests/unit/streaming/spark/inventory/test_managed.py::test_a_history_server_hands_over_the_logs"
_MASTER_LOST = "tests/real/test_lost_driver.py::test_a_driver_that_its_master_has_lost_writes_on_and_is_not_proven_gone"
_CLIENT = f"{_PROOF}::test_a_driver_outside_of_yarn_has_to_be_gone_itself"
_PODS = "tests/unit/streaming/spark/masters/test_kubernetes.py"
_POD_ENDED = f"{_PODS}::test_the_end_of_a_container_that_its_node_has_seen_is_proof"
_POD_LOST = f"{_PODS}::test_a_pod_called_failed_without_its_node_has_not_ended"
_POD_GONE = f"{_PODS}::test_a_pod_that_is_gone_proves_nothing"
_WRITTEN = "the tests write its answers"
_BY_HAND = "the tests write its answers; real ones, of Spark 4.2.0, were tried by hand"
_ONE_NODE = "Hadoop's own daemons, one node; each container has a host name of its own"

MANAGERS: Mapping[str, Sequence[Cell]] = {
    "YARN, cluster mode": (
        Cell(How.REAL, (_EXIT, _LOST_NODE), "Hadoop 3.5.0"), Cell(How.REAL, (_ATTEMPT,), _ONE_NODE),
        Cell(How.REAL, (_ATTEMPT,)),
    ),
    "YARN, client mode": (Cell(How.STAND_IN, (_CLIENT,), _WRITTEN), Cell(How.NOT), Cell(How.NOT)),
    "standalone": (
        Cell(How.REAL, (_MASTER_LOST,), "Spark 4.2.0; the driver has to be gone from its own host, too"), Cell(How.NOT),
        Cell(How.STAND_IN, (_LISTED,), _BY_HAND),
    ),
    "Kubernetes": (
        Cell(How.STAND_IN, (_POD_ENDED, _POD_LOST, _POD_GONE), "a server of the tests that speaks the same API"),
        Cell(How.NOT), Cell(How.NOT),
    ),
    "Spark's history server": (Cell(How.NOT), Cell(How.NOT), Cell(How.STAND_IN, (_HISTORY,), _BY_HAND)),
}  # fmt: skip

HEAD = """# What was tried

Which Spark, where a checkpoint may be, which login, which replicator, which cluster manager, and which Spark of an
[application without the jar](adopt.md#applications-without-the-jar). The page is printed from the list of tests in
`tests/support.py` by `python -m tests.support write`. A test that is named in the row of a PySpark runs on it: on
4.2.0 in `make test-all`, on the others in `make test-matrix`. So does a failover to or from each login; the one to
AWS_MSK_IAM has its checkpoints on S3. The long tests (`tests/long`), the other tests of logins and those of replicators
run on 4.2.0 alone. A move on an older Java runs on 3.5.7.

- **tested on real parts**: real brokers, a real Spark, a real disk.
- **tested against a stand-in**: the note names the stand-in.
- **read**: in the sources or the documents of the project, and not run.

"""


TABLES: Mapping[str, tuple[Sequence[str], Mapping[str, Sequence[Cell]]]] = {
    "Spark": (COLUMNS, ROWS),
    "Java of an application": (JAVA_COLUMNS, JAVAS),
    "Login": (LOGIN_COLUMNS, LOGINS),
    "Replicator": (REPLICATOR_COLUMNS, REPLICATORS),
    "Spark of an application without the jar": (EXTERNAL_COLUMNS, EXTERNALS),
    "Cluster manager": (MANAGER_COLUMNS, MANAGERS),
}
"""By the name of the first column."""


def page() -> str:
    """The whole page."""
    notes: dict[Cell, int] = {}
    lines: list[str] = []
    for first, (columns, rows) in TABLES.items():
        lines += [f"| {first} | {' | '.join(columns)} |", f"|{'---|' * (len(columns) + 1)}"]
        lines += [f"| {name} | {' | '.join(_text(cell, notes) for cell in cells)} |" for name, cells in rows.items()]
        lines.append("")
    listed = [f"{number}. {_note(cell)}" for cell, number in notes.items()]
    return HEAD + "\n".join([*lines, "## Notes", "", *listed, ""])


def _text(cell: Cell, notes: dict[Cell, int]) -> str:
    if not (cell.tests or cell.note):
        return str(cell.how)
    return f"{cell.how} ({notes.setdefault(cell, len(notes) + 1)})"


def _note(cell: Cell) -> str:
    tests = ", ".join(f"`{test.partition('::')[0]}` ({test.partition('::')[2]})" for test in cell.tests)
    note = cell.note[:1].upper() + cell.note[1:]
    return ". ".join(each for each in (note, tests) if each)


def named_tests() -> Iterator[str]:
    """Every test that the page names, once."""
    cells = (cell for _, rows in TABLES.values() for row in rows.values() for cell in row)
    yield from sorted({test for cell in cells for test in cell.tests})


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
