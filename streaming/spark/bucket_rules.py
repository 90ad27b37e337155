"""What a bucket's lifecycle does with the objects of a checkpoint: read by the connector's own client, then judged.

A rule that deletes by age takes away what a query writes once and needs for ever: ``metadata``, mappings, epochs. One
that moves objects to an archive makes them unreadable. Nothing of that shows before the age is reached, so the rules
are read while the query runs. A bucket whose rules may not be read is unknown, and so is a store that has no such
request.

The client is the one that Hadoop's connector of S3 has made, so keys, endpoint and region are as configured there. It
is of version 1 of Amazon's SDK under Hadoop 3.3, of version 2 since 3.4.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from state.model.entities import BucketRules, RulesFound
from state.plain_text import amount
from streaming.spark.jvm import JavaObject, java_context, java_view

_CONNECTOR = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_WHY = "tideover: the lifecycle of a checkpoint's bucket"
_NO_RULES = "NoSuchLifecycleConfiguration"
_READABLE = frozenset({"STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR"})
"""Storage classes whose objects are read without a restore, by Amazon's page on storage classes."""
_TAG, _SIZE = "with a tag", "of some size"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One enabled rule, as far as it concerns objects that are in use."""

    name: str
    prefix: str
    does: tuple[str, ...]
    """``deletes them after 30 days``, ``moves them to GLACIER after 7 days``; empty where it does neither."""
    only: tuple[str, ...] = ()
    """Which objects below the prefix it takes, where not all of them."""

    def meets(self, prefix: str) -> bool:
        """Whether objects below a prefix can be below this rule's."""
        return self.prefix.startswith(prefix) or prefix.startswith(self.prefix)

    def text(self, bucket: str) -> str:
        where = f"below {self.prefix}" if self.prefix else "in the whole bucket"
        which = "".join(f" {each}" for each in self.only)
        return f"rule {self.name} of bucket {bucket} takes objects{which} {where}, and {' and '.join(self.does)}"


def judged(rules: Iterable[Rule], bucket: str, prefix: str) -> BucketRules:
    """What the rules of a bucket mean for a checkpoint whose objects begin with ``prefix``, which ends with a slash."""
    met = [rule for rule in rules if rule.does and rule.meets(prefix)]
    sure = [rule for rule in met if not rule.only]
    if sure:
        return BucketRules(RulesFound.RULES, "; ".join(rule.text(bucket) for rule in sure))
    if met:
        return BucketRules(RulesFound.UNKNOWN, "; ".join(rule.text(bucket) for rule in met))
    return BucketRules(RulesFound.NONE, f"no rule of bucket {bucket} deletes or moves objects below {prefix}")


def bucket_rules(session: SparkSession, checkpoint: str) -> BucketRules | None:
    """The answer for a checkpoint; None where Hadoop's connector of S3 does not hold it. Takes as long as the store."""
    try:
        path = java_view(session).org.apache.hadoop.fs.Path(checkpoint)
        connector = path.getFileSystem(java_context(session).hadoopConfiguration())
        if connector.getClass().getName() != _CONNECTOR:
            return None
        bucket, prefix = str(connector.getBucket()), str(path.toUri().getPath()).strip("/") + "/"
    except Py4JError as error:
        return BucketRules(RulesFound.UNKNOWN, f"the file system of {checkpoint} cannot be had: {_said(error)}")
    try:
        return judged(_read(session, connector, bucket), bucket, prefix)
    except Py4JJavaError as error:
        return _refused(error, bucket, prefix)
    except Py4JError as error:
        return BucketRules(
            RulesFound.UNKNOWN, f"this connector gives no client to read the lifecycle of bucket {bucket}: {error}"
        )


def _refused(error: Py4JJavaError, bucket: str, prefix: str) -> BucketRules:
    """A bucket without a lifecycle answers with an error as well."""
    said, status = _said(error), _status(error.java_exception)
    if _code(error.java_exception) == _NO_RULES:
        return judged((), bucket, prefix)
    if status == HTTPStatus.FORBIDDEN:
        text = f"our user may not read the lifecycle of bucket {bucket} (s3:GetLifecycleConfiguration)"
    elif status == HTTPStatus.NOT_IMPLEMENTED:
        text = f"the store of bucket {bucket} does not say which lifecycle it has"
    else:
        text = f"the lifecycle of bucket {bucket} cannot be read: {said}"
    return BucketRules(RulesFound.UNKNOWN, text)


def _said(error: Py4JError) -> str:
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return " ".join(text.split())


def _status(thrown: JavaObject) -> int | None:
    for name in ("statusCode", "getStatusCode"):
        try:
            return int(getattr(thrown, name)())
        except (Py4JError, TypeError, ValueError):
            continue
    return None


def _code(thrown: JavaObject) -> str | None:
    """S3's word for the error, by either SDK."""
    try:
        return str(thrown.awsErrorDetails().errorCode())
    except Py4JError:
        pass
    try:
        return str(thrown.getErrorCode())
    except Py4JError:
        return None


def _read(session: SparkSession, connector: JavaObject, bucket: str) -> list[Rule]:
    """Raises py4j's errors."""
    try:
        client = connector.getS3AInternals().getAmazonS3Client(_WHY)
    except Py4JJavaError:
        raise
    except Py4JError:  # no such method: Hadoop 3.3, and the SDK of version 1
        return _by_version_1(connector, bucket)
    model = java_view(session).software.amazon.awssdk.services.s3.model
    request = model.GetBucketLifecycleConfigurationRequest.builder().bucket(bucket).build()
    return [
        _rule_2(each)
        for each in client.getBucketLifecycleConfiguration(request).rules()
        if _is_on(each.statusAsString())
    ]


def _is_on(status: object) -> bool:
    return str(status) == "Enabled"


def _rule_2(rule: JavaObject) -> Rule:
    chosen = rule.filter()
    both = None if chosen is None else getattr(chosen, "and")()
    parts = [part for part in (chosen, both) if part is not None]
    prefixes = [rule.prefix(), *(part.prefix() for part in parts)]
    tagged = any(part is chosen and part.tag() is not None for part in parts) or (both is not None and len(both.tags()))
    sized = any(part.objectSizeGreaterThan() or part.objectSizeLessThan() for part in parts)
    ends = rule.expiration()
    does = [] if ends is None or (ends.days() is None and ends.date() is None) else [_deletes(ends.days(), ends.date())]
    does += _moves([(each.storageClassAsString(), each.days(), each.date()) for each in rule.transitions()])
    return _made(rule.id(), prefixes, does, tagged=bool(tagged), sized=sized)


def _by_version_1(connector: JavaObject, bucket: str) -> list[Rule]:
    client = connector.getAmazonS3ClientForTesting(_WHY)
    found = client.getBucketLifecycleConfiguration(bucket)
    rules = [] if found is None else found.getRules()
    return [_rule_1(each) for each in rules if _is_on(each.getStatus())]


def _rule_1(rule: JavaObject) -> Rule:
    chosen = rule.getFilter()
    first = None if chosen is None else chosen.getPredicate()
    parts = [] if first is None else list(first.getOperands()) if _named(first).endswith("AndOperator") else [first]
    names = [_named(part) for part in parts]
    prefixes = [rule.getPrefix()]
    prefixes += [part.getPrefix() for part, name in zip(parts, names, strict=True) if name.endswith("PrefixPredicate")]
    days = int(rule.getExpirationInDays())
    does = (
        []
        if days < 1 and rule.getExpirationDate() is None
        else [_deletes(days if days > 0 else None, rule.getExpirationDate())]
    )
    does += _moves(
        [
            (each.getStorageClassAsString(), None if each.getDate() is not None else each.getDays(), each.getDate())
            for each in rule.getTransitions() or ()
        ]
    )
    tagged = any(name.endswith("TagPredicate") for name in names)
    return _made(rule.getId(), prefixes, does, tagged=tagged, sized=any("ObjectSize" in name for name in names))


def _named(part: JavaObject) -> str:
    return str(part.getClass().getSimpleName())


def _made(name: object, prefixes: Sequence[object], does: list[str], *, tagged: bool, sized: bool) -> Rule:
    prefix = next((str(each) for each in prefixes if each), "")
    only = [words for words, holds in ((_TAG, tagged), (_SIZE, sized)) if holds]
    return Rule(name=str(name or "without a name"), prefix=prefix, does=tuple(does), only=tuple(only))


def _deletes(days: object, date: object) -> str:
    return f"deletes them {_when(days, date)}"


def _moves(transitions: Iterable[tuple[object, object, object]]) -> list[str]:
    """What takes objects to where a query cannot read them: storage class, days and date of each transition."""
    return [
        f"moves them to {kind} {_when(days, date)}" for kind, days, date in transitions if str(kind) not in _READABLE
    ]


def _when(days: object, date: object) -> str:
    return f"on {date}" if days is None else f"after {amount(int(str(days)), 'day')}"
