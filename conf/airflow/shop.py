"""The application ``shop`` under Airflow: its ``SparkSubmitOperator`` starts the driver, and starts it again.

Written for apache-airflow 3.3 with apache-airflow-providers-apache-spark 6.3, which are no part of Tideover. The two
lines beside the job's own are ``jars`` and ``conf``; docs/adopt.md explains the rest. Variables of the worker's
environment that begin with ``SHOP_`` replace what is written here.
"""

import json
import os
from datetime import timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG


def known(name: str, default: str) -> str:
    """A value from the environment of the worker."""
    return os.environ.get(f"SHOP_{name}", default)


with DAG("shop", schedule=None, catchup=False, max_active_runs=1) as dag:
    SparkSubmitOperator(
        task_id="shop",
        application=known("JOB", "/opt/shop/plain_job.py"),
        application_args=[known("SERVERS", "east-kafka:9092"), known("FOLDER", "/data/shop")],
        name="shop",
        jars=known("JARS", "/opt/tideover/companion.jar"),
        conf={
            "spark.plugins": "tideover.AttachPlugin",
            "spark.tideover.config": known("CONFIG", "/etc/tideover.yaml"),
            **json.loads(known("CONF", "{}")),
        },
        # Exit code 75 of a moved query fails the task, and the next try reads where the query is now. Airflow counts
        # the tries of a run for as long as it lasts, so a job without end needs many.
        retries=10_000,
        retry_delay=timedelta(seconds=int(known("RETRY_SECONDS", "10"))),
    )
