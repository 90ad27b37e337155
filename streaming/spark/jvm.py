"""The few doors into the JVM behind pyspark's back, and what comes through them when something fails, in words.

pyspark keeps them in underscored attributes that have been the same since 2.x. Everything else here goes through these
functions, so that a version that moves one is met in one file.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_collections import ListConverter, MapConverter, SetConverter
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.java_gateway import JavaObject as GatewayObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.error_meanings import meaning_of_client

_BEGIN = "Traceback (most recent call last):"
_SQLSTATE = re.compile(r"\n ?SQLSTATE: \w+\s*$")
"""What Spark puts behind every message."""
_FRAME = re.compile(r'\s+File "(?P<file>[^"]*)", line (?P<line>\d+)')


def worker_trace(message: str) -> str | None:
    """The traceback within a message, from its begin on; None where there is none.

    Spark puts the whole of it into the message of a ``PythonException``, behind a line that says nothing. It is ``An
    exception was thrown from the Python worker`` (3.5.7, 4.0.0, 4.2.0).
    """
    _, begin, rest = message.partition(_BEGIN)
    return begin + _SQLSTATE.sub("", rest).rstrip() if begin else None


def worker_error(message: str) -> str | None:
    """What was raised, and where: ``ValueError: no such customer (Python worker, shop.py:12)``.

    Of a chain of errors it is the last one. None where the message holds no traceback.
    """
    trace = worker_trace(message)
    if trace is None:
        return None
    lines = trace.rpartition(_BEGIN)[2].splitlines()
    raised = next((line.strip() for line in lines if line and not line[0].isspace()), None)
    if raised is None:
        return None
    frames = [frame for line in lines if (frame := _FRAME.match(line)) is not None]
    place = f", {frames[-1]['file'].rpartition('/')[2]}:{frames[-1]['line']}" if frames else ""
    return f"{raised} (Python worker{place})"


def with_meaning(line: str) -> str:
    """The line, with what it means behind it where it is about credentials, ACLs, certificates or a pause.

    The exceptions of Kafka's Java clients name the resource and not the operation; what a query does with the resource
    shows it.
    """
    found = meaning_of_client(line)
    return line if found is None else f"{line} ({found.sentence})"


JavaObject = Any  # py4j builds its proxies at run time: there is no type to name


def launch_jvm(conf: Mapping[str, str]) -> None:
    """Launch the JVM unless this process has one. Everyone can read ``conf`` in the arguments of its process."""
    arguments = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    SparkContext._ensure_initialized(conf=arguments)  # noqa: SLF001 - this module is the seam


def launched_view() -> JavaObject:
    """py4j's view of the JVM that was launched, before there is a session."""
    return SparkContext._jvm  # noqa: SLF001 - as above


def joined_view(port: int, secret: str, *, is_pinned: bool) -> JavaObject:
    """py4j's view of a JVM that another process launched, through its door on loopback. Raises ``Py4JError``.

    ``is_pinned``: each thread here has one of its own there, as that JVM's Spark has it (``PYSPARK_PIN_THREAD``).

    pyspark's ``launch_gateway`` would do the same, and offer each argument of each call to pyspark's converters as
    well. The one for arrays of numpy loads ``pyspark.testing`` for that, with numpy, pandas, pyarrow and protobuf where
    they are installed (4.2.0). No value of theirs is handed over here.
    """
    if is_pinned:
        gateway = ClientServer(
            java_parameters=JavaParameters(port=port, auth_token=secret),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
    else:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    gateway._gateway_client.converters = [SetConverter(), MapConverter(), ListConverter()]  # noqa: SLF001 - as above
    return gateway.jvm


def has_class(view: JavaObject, name: str) -> bool:
    """Whether Spark's class loader finds a class of that name, which is not initialised.

    Raises ``Py4JJavaError`` for one that is there and cannot be loaded.
    """
    try:
        view.java.lang.Class.forName(name, False, view.java.lang.Thread.currentThread().getContextClassLoader())
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.lang.ClassNotFoundException":
            raise
        return False
    return True


def protect_callbacks(session: SparkSession) -> None:
    """Let only our JVM call the Python functions of ``foreachBatch``. Raises ``Py4JError``.

    py4j's callback server listens on the loopback address. Spark gives it no token, so each user of the host could
    list, call and delete the functions of a running query. Both sides get one here. The server requires it, and the
    JVM's client sends it on each new connection (``py4j.CallbackClient.authToken``; 3.5.7, 4.0.0, 4.2.0).
    """
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - as above
    parameters = gateway.callback_server_parameters
    if parameters.auth_token is not None:
        return  # a session of before in this process did it
    parameters.auth_token = secrets.token_urlsafe(32)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call] # pyspark's own
    client = GatewayObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()  # noqa: SLF001 - as above
    field = java_view(session).java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, parameters.auth_token)


def java_view(session: SparkSession) -> JavaObject:
    """py4j's view of the JVM's packages."""
    return session.sparkContext._jvm  # noqa: SLF001 - as above


def java_context(session: SparkSession) -> JavaObject:
    """Scala's ``SparkContext``."""
    return session.sparkContext._jsc.sc()  # noqa: SLF001 - as above


def java_query(query: StreamingQuery) -> JavaObject:
    """The JVM's ``StreamingQuery``."""
    return query._jsq  # noqa: SLF001 - as above


def java_writer(writer: DataStreamWriter) -> JavaObject:
    """The JVM's ``DataStreamWriter``."""
    return writer._jwrite  # noqa: SLF001 - as above


def analysed_plan(writer: DataStreamWriter) -> JavaObject | None:
    """The plan that Spark has made of what a writer writes; None where this version keeps it elsewhere."""
    frame = private_field(java_writer(writer), "ds", "df")
    return None if frame is None else frame.queryExecution().analyzed()


def streams_of(plan: JavaObject) -> list[JavaObject | None]:
    """The options of each streaming source of a plan, in its order; None for one that is not Spark's V2 kind."""
    leaves = plan.collectLeaves()
    named = [(leaf, str(leaf.getClass().getSimpleName())) for leaf in map(leaves.apply, range(leaves.size()))]
    return [
        leaf.extraOptions() if name == "StreamingRelationV2" else None
        for leaf, name in named
        if name.startswith("Streaming")
    ]


def relation_options(writer: DataStreamWriter) -> list[dict[str, str]]:
    """The options of each streaming source that a writer's plan reads, in plan order, keys in lower case.

    A source that is read twice is there twice; of one that is not Spark's V2 kind nothing is known.
    """
    plan = analysed_plan(writer)
    streams = [] if plan is None else [options for options in streams_of(plan) if options is not None]
    return [{str(key): str(options.get(key)) for key in options.keySet()} for options in streams]


def private_field(java: JavaObject, *names: str) -> JavaObject | None:
    """A private field, by the first of its names that this version of Spark has; None where it has none of them."""
    for name in names:
        try:
            field = java.getClass().getDeclaredField(name)
        except Py4JError:
            continue
        field.setAccessible(True)
        return field.get(java)
    return None


def detach(session: SparkSession) -> None:
    """Take a session that is done with from the context's listener bus.

    ``StreamingQueryManager`` puts a listener there for each session that starts a query and never takes it away. So
    each start of a query would leave one more listener that gets every task.
    """
    manager = session._jsparkSession.streams()  # noqa: SLF001 - as above
    listener = private_field(manager, "listenerBus")
    if listener is not None:
        java_context(session).listenerBus().removeListener(listener)


def jvm_has_ended() -> bool:
    """Whether the JVM that this process launched is gone."""
    gateway = SparkContext._gateway  # noqa: SLF001 - as above
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def end_jvm() -> None:
    """Kill the JVM that this process launched, also one that is frozen, and wait until it is gone."""
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - as above
    if process is not None:
        process.kill()
        process.wait()


def has_stopped(session: SparkSession) -> bool:
    """Whether the application has ended, though its JVM may live on: a cluster manager that takes it away does that."""
    return bool(java_context(session).isStopped())


def root_cause(throwable: JavaObject) -> str:
    """The innermost cause of a Java throwable, as one line: its class and the first line of its message.

    Of an error in a Python worker it is what the worker raised.
    """
    innermost = _innermost(throwable)
    return one_line(str(innermost.getClass().getSimpleName()), str(innermost.getMessage() or ""))


def trace_of(throwable: JavaObject) -> str | None:
    """The traceback of a Python worker behind a Java throwable; None where no worker raised."""
    return worker_trace(str(_innermost(throwable).getMessage() or ""))


def cause_of(error: BaseException) -> str:
    """What an exception of pyspark or py4j means, as one line: the innermost Java cause where there is one."""
    if isinstance(error, Py4JJavaError):
        return root_cause(error.java_exception)
    return one_line(type(error).__name__, str(error))


def one_line(name: str, message: str) -> str:
    """``Name: message`` with the first line that says something, cut to what a table can carry, and its meaning."""
    raised = worker_error(message)
    if raised is not None:
        return with_meaning(raised[:500])
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return with_meaning(f"{name}: {first}"[:500] if first else name)


def _innermost(throwable: JavaObject) -> JavaObject:
    for _ in range(50):
        cause = throwable.getCause()
        if cause is None:
            break
        throwable = cause
    return throwable
