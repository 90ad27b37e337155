"""The promises of Tideover that ``make test`` proves on real parts: one test of each. ``make test-all`` runs every one.

A promise is a sentence of the README or of a page of ``docs``. Its test plays it on real brokers, Spark, PostgreSQL,
Chromium or an object store; the simulation, which ``make test`` runs too, plays it with every fault. What takes minutes
there is left to ``make test-all``: the way home and a drill under load, a Spark standalone cluster, chains of queries.
"""

CORE = {
    "the controller moves every query after a kill, by switch and by carry, and each record counts once":
        "test_carries.py::test_the_controller_moves_every_query_at_a_random_moment_of_a_kill",
    "a failover and the way back keep checkpoint, query id and every record":
        "test_switch.py::test_a_move_and_the_way_back_keep_checkpoint_and_query_id",
    "an ordinary job is moved in its run, and reads the right cluster after its driver was killed":
        "test_attached.py::test_a_moved_job_is_on_the_right_cluster_after_a_kill",
    "an application of each kind, moved at a random moment under load, has each record once":
        "test_random_moments.py::test_each_kind_of_application_is_exact_at_a_random_moment",
    "a listed tail is written to a side topic as it was":
        "test_failback.py::test_a_listed_tail_is_written_to_a_side_topic_as_it_was",
    "a planned move and its way back are made in one run":
        "test_switch.py::test_a_planned_move_and_its_way_back_are_made_in_one_run",
    "a batch in flight runs again under its id on the standby":
        "test_switch.py::test_a_batch_in_flight_runs_again_under_its_id_on_the_standby",
    "a carried query keeps its state, record by record":
        "test_carry_spark.py::test_sums_without_deduplication_stay_exact[replan-before-format-2-2]",
    "a run on a frozen cluster is stopped with proof before anything is started":
        "test_runner.py::test_a_query_fenced_on_a_frozen_cluster_continues_at_the_standby",
    "a killed runner is followed by another one":
        "test_runner.py::test_a_killed_runner_is_followed_by_one_that_serves_on_a_dead_cluster",
    "a stale run writes nothing":
        "test_companion.py::test_a_run_whose_epoch_is_over_ends_and_leaves_half_of_nothing",
    "of several writers of one entry exactly one gets the name":
        "test_companion.py::test_of_eight_writers_exactly_one_gets_the_name",
    "the resume offset is found by content, never late, and exact where it can be":
        "test_alignment.py::test_a_place_is_never_late_and_costs_no_more_than_forecast[plain]",
    "a replicator that keeps offsets is used as it is":
        "test_places_on_brokers.py::test_a_standby_that_copies_bytes_is_resumed_at_the_same_offset",
    "where only times can decide, the buffer covers their disorder":
        "test_places_on_brokers.py::test_a_measured_buffer_covers_the_disorder_and_skips_no_unread_record",
    "a topic that the standby lacks is refused by name before anything is stopped":
        "test_places_on_brokers.py::test_a_topic_missing_on_the_standby_is_refused_by_name_and_not_created",
    "aborted transactions are not read":
        "test_link.py::test_read_committed_leaves_out_aborted_records_and_markers",
    "records of an open transaction are not called none":
        "test_left_transactions.py::test_records_of_an_open_transaction_are_never_counted_as_none",
    "a dead cluster gets the verdict DOWN, and UP when it is back":
        "test_watch.py::test_a_cluster_that_is_gone_is_down_and_up_again_when_it_is_back[kill-start]",
    "another cluster at the same address is refused":
        "test_identity.py::test_verdict_gate_and_runner_refuse_a_cluster_at_anothers_address",
    "queries read on without their PostgreSQL store, and no position is lost":
        "test_store_gone.py::test_positions_spooled_without_a_store_lead_to_the_exact_resume_offset",
    "a warm runner rehearses a plan, and no record meets the user's code":
        "test_warmup.py::test_a_standby_runner_plans_and_rehearses_unseen_from_outside",
    "a rewind repeats what it forecast":
        "test_rewind.py::test_a_rewind_repeats_what_it_forecast_and_state_ends_exact",
    "a query whose logic uses offsets is reported":
        "test_meaning.py::test_a_use_is_reported_and_the_query_beside_it_is_not_refused",
    "a table of Delta has a batch in flight exactly once":
        "test_tables.py::test_a_batch_in_flight_reaches_delta_exactly_once[replan-has]",
    "a checkpoint on a store of the S3 protocol has one writer":
        "test_object_store.py::test_of_eight_writers_exactly_one_gets_the_name",
    "queries with checkpoints on HDFS, S3, Azure Data Lake and Cloud Storage move after a kill":
        "test_stores.py::test_a_query_on_each_store_goes_to_the_standby",
    "a store without conditional writes is refused":
        "test_object_store.py::test_a_runner_refuses_a_store_that_ignores_conditional_writes",
    "queries move from a cluster that wants a password (PLAIN) to one that wants tokens of OpenID Connect":
        "test_tokens.py::test_a_query_moves_from_a_password_to_tokens",
    "queries move from a cluster that wants a certificate and a password (SCRAM) to one with logins by IAM":
        "test_msk.py::test_a_query_moves_from_a_certificate_and_a_password_to_signatures",
    "queries move between clusters that want tickets of Kerberos":
        "test_kerberos.py::test_a_query_moves_between_clusters_that_want_tickets",
    "logins by IAM pass a check of their signatures, and throttled ones are tried again":
        "test_msk.py::test_a_gate_with_too_many_connects_holds_up_and_refuses_nothing",
    "TLS with client certificates works, and SASL with passwords":
        "test_link_security.py::test_a_look_with_right_credentials_times_its_layers",
    "a missing permission is named":
        "test_permissions.py::test_each_missing_acl_is_named_and_counts_as_soon_as_it_is_there",
    "the page follows without a reload":
        "test_desk_page.py::test_the_page_follows_what_happens_without_a_reload",
    "a failover is planned and begun on the page":
        "test_desk_page.py::test_a_failover_is_planned_and_begun_by_clicks_and_another_page_follows[scripts]",
    "the page can be used by everybody":
        "test_desk_page.py::test_no_page_shuts_anybody_out[desktop-light]",
    "each alert fires when it should":
        "test_prometheus.py::test_each_alert_fires_when_it_should_and_none_on_a_calm_day",
    "a cluster that is down is reported to people once":
        "test_notices.py::test_a_down_cluster_is_notified_once_by_whichever_controller_leads",
    "the wheel holds the program whole":
        "test_wheel.py::test_the_wheel_holds_the_program_whole_and_nothing_else",
    "an installed wheel works far from the checkout":
        "test_wheel.py::test_an_installed_wheel_shows_its_version_and_checks_a_configuration",
}  # fmt: skip
"""By promise the test of it, as pytest names it; with parameters where one case is enough."""


def is_core(file: str, name: str) -> bool:
    """Whether a test is one of them, by its file and its name with parameters."""
    return not {f"{file}::{name}", f"{file}::{name.partition('[')[0]}"}.isdisjoint(CORE.values())
