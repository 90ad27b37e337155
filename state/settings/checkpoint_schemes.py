"""On which file systems a checkpoint may be, by the scheme of its path. Pure."""

STORE = "s3a"
"""Hadoop's connector of S3: the one of an object store that can create for exactly one, with the companion."""
STORES = frozenset({STORE, "s3", "s3n"})
"""Schemes behind which that connector may be. The class decides, which only a runner sees."""
LAKE_HINT = (
    "use Hadoop's own client (AzureBlobFileSystem) and an account with a hierarchical namespace, or put the checkpoint "
    "on hdfs, on s3a, or on a disk or share that every runner mounts"
)
LAKES = frozenset({"abfs", "abfss"})
"""Schemes of Hadoop's client of Azure Data Lake. The class decides, and whether the account's folders are real."""
GOOGLE_HINT = (
    "on Cloud Storage run the query with Tideover's companion, by Google's own connector "
    "(com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem). Leave fs.gs.client.type and "
    "fs.gs.performance.cache.enable alone. Or put the checkpoint on hdfs, on s3a, or on a disk or share that every "
    "runner mounts"
)
GOOGLE = "gs"
"""Google's connector of Cloud Storage, which creates for exactly one with the companion. The class decides."""
OBJECTS = STORES | {GOOGLE}
"""Schemes of object stores: a rename is a copy there, so the companion puts what must not exist on that condition."""
SAFE = frozenset({"file", "hdfs"}) | OBJECTS | LAKES
"""Known to create a file for exactly one of those who race for its name, or tried by a runner before it begins."""
HINT = (
    "put the checkpoint on hdfs, on s3a, or on a disk or share that every runner mounts; instead of viewfs, write the "
    "hdfs path"
)
STORE_HINT = (
    "on S3 run the query with Tideover's companion, by Hadoop's own connector (S3AFileSystem), and leave "
    "fs.s3a.create.conditional.enabled alone. Or put the checkpoint on hdfs, or on a disk or share that every runner "
    "mounts"
)


def scheme_of(path: str) -> str:
    """The scheme in front of a path, in lower case; empty where Hadoop's default file system decides."""
    scheme, colon, _ = path.partition("/")[0].partition(":")
    return scheme.lower() if colon else ""


def scheme_refusal(path: str, default: str = "file:///") -> str | None:
    """Why a checkpoint may not lie there; None when it may. ``default`` is Hadoop's ``fs.defaultFS``.

    Two drivers must never both believe that they created one entry of a log. Hadoop's rename without overwriting
    promises that on HDFS and on local disks, where it is one step. The connectors of object stores look first and copy
    then. That of S3 can also put an object on the condition that there is none, which a runner tries before it begins
    (HADOOP-19256). So can that of Google's Cloud Storage, by generation 0. Azure Data Lake renames in one step, on the
    condition that the name is free, where an account has a hierarchical namespace. ``viewfs`` is whatever its mount
    table says.
    """
    own = scheme_of(path)
    scheme = own or scheme_of(default) or "file"
    if scheme in SAFE:
        return None
    where = scheme if own else f"{scheme}, by fs.defaultFS"
    return f"{path} is on {where}, where two drivers could both create one entry of its log and run the query twice"
