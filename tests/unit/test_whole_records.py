"""A record's key and value as one: what a digest is taken of, and what a topic in full is read from."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka.requests.records import parts, whole

FIELD = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"-", b"+", b"3:abc", b"+3:", b"1:-"])


@given(FIELD, FIELD)
def test_joined_key_and_value_come_apart_again(key: bytes | None, value: bytes | None) -> None:
    assert parts(whole(key, value)) == (key, value)
