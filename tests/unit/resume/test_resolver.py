from standby import T0, Slot, copied, one, rules, sample, standby, stream, want

from state.settings import MethodName


def test_a_plain_copy_at_another_base_is_resumed_exactly():
    old = stream(0, 200)
    target = one(standby(Slot(copied(old, 5000))), want(old[:120]), old_ends=sample(230, T0 + 2290))
    assert (target.target_offset, target.method, target.exact) == (5120, "exact", True)
    assert (target.replay_records, target.replay_later_records, target.note) == (0, 0, "")
    assert (target.begin, target.end) == (0, 5200)
    assert (target.exposure_records, target.exposure_seconds) == (30, 0.3)


def test_a_query_restricted_to_time_gets_a_forecast_that_the_content_measured():
    old = stream(0, 200)
    target = one(standby(Slot(copied(old, 5000))), want(old[:120]), rules(MethodName.TIMESTAMP, buffer_ms=500))
    assert (target.target_offset, target.method, target.exact) == (5069, "timestamp", False)
    assert target.replay_records == 51


def test_ends_are_asked_before_times():
    log = standby(Slot(copied(stream(0, 50))))
    one(log, want(stream(0, 30)))
    assert log.asked[:3] == ["describe", "LATEST", "EARLIEST"]
    assert set(log.asked[3:]) == {"TIME", "MAX_TIMESTAMP"}
