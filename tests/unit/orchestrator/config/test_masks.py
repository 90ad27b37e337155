"""What is shown of a configuration has no secret in it, also where a secret is a part of another text."""

import json
from pathlib import Path

import pytest

from orchestrator.config.load import load
from orchestrator.config.masks import MASK, masked
from tests.unit.orchestrator.config.test_load import GOOD, written

SECRETS = (
    "jdbc:postgresql://me:SECRET@db.example/x",
    "-Djavax.net.ssl.trustStorePassword=SECRET -Dx=1",
    "me:SECRET@db.example:5432",
    "https://registry.example/?token=SECRET&x=1",
    'org.example.Login required user="me" password="SECRET";',
    "-Dstore.pass=SECRET",
)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_inside_a_text_is_masked_by_its_shape(tmp_path: Path, text: str) -> None:
    given = json.dumps(text)
    settings = f"    settings: {{endpoint: {given}}}\nspark: {{conf: {{spark.driver.extra: {given}}}}}\n"
    document = json.dumps(masked(load(written(tmp_path, GOOD + settings), {}).settings))
    assert "SECRET" not in document
    assert document.count(json.dumps(text.replace("SECRET", MASK))) == 2


@pytest.mark.parametrize(
    "text", ["s3a://bucket/secrets/x", "module:function", "org.apache.spark.Token", "-Xss4m -Da=b"]
)
def test_a_text_without_a_secret_is_shown_whole(tmp_path: Path, text: str) -> None:
    shown = masked(load(written(tmp_path, GOOD + f"    settings: {{x: {json.dumps(text)}}}\n"), {}).settings)
    assert json.dumps(text) in json.dumps(shown)
