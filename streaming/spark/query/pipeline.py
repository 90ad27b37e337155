"""Calls the user's pipeline function and checks what it hands back, so that each mistake has its own sentence.

The function never sees a cluster, a checkpoint or a trigger; the runner adds them. What it set of them itself would
silently lose against the runner, or the runner against it, so it is refused.
"""

import importlib
import inspect
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming.spark.errors import PipelineMisfit, PipelineMissing, PipelineRaised
from streaming.spark.jvm import java_writer, one_line, private_field, relation_options

Pipeline = Callable[..., object]
Sources = Mapping[str, DataFrame]

SOURCE_OPTION = "tideover.source"
"""Names a declared source among the options of its relation, by which a plan shows what it reads; Kafka's source passes
over options that it does not know."""
_ASYNC = "asyncProgressTrackingEnabled"


def load_pipeline(name: str) -> Pipeline:
    """Import ``module:function``. Raises ``PipelineMissing``."""
    module_name, _, function_name = name.partition(":")
    module = _import(name, module_name)
    function = getattr(module, function_name, None)
    if function is None:
        raise PipelineMissing(
            f"{module_name} has no function {function_name}",
            hint=f"it was loaded from {_file(module)}: check that this is the right file",
        )
    if not callable(function):
        raise PipelineMissing(f"{name} is {_with_article(type(function).__name__)}, not a function")
    return function  # type: ignore[no-any-return] # callable() narrows a module's attribute to Any


def build_writer(name: str, pipeline: Pipeline, sources: Sources, settings: Mapping[str, object]) -> DataStreamWriter:
    """Call the pipeline and check its answer. Raises ``PipelineRaised`` and ``PipelineMisfit``."""
    arguments = (sources, settings) if takes_settings(pipeline) else (sources,)
    try:
        writer = pipeline(*arguments)
    except Exception as error:  # the user's code: whatever it raises is reported, never ours to judge
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise PipelineRaised(
            f"{name} raised {one_line(type(error).__name__, str(error))}", hint=f"at {where.filename}:{where.lineno}"
        ) from error
    if isinstance(writer, StreamingQuery):
        writer.stop()
        raise PipelineMisfit(
            f"{name} started the query itself; it was stopped", hint="return the writer, without start()"
        )
    if not isinstance(writer, DataStreamWriter):
        raise PipelineMisfit(
            f"{name} returned {_article(writer)}, not a DataStreamWriter",
            hint="return frame.writeStream with its sink set",
        )
    _check_untouched(name, writer)
    return writer


def direct_output(name: str, writer: DataStreamWriter, options: Mapping[str, str]) -> DataStreamWriter:
    """Turn the writer's sink into Kafka's, with these options. Raises ``PipelineMisfit`` when it has another one."""
    sink = private_field(java_writer(writer), "source")
    if sink is not None and sink in {"foreachBatch", "foreach", "memory", "console"}:
        raise PipelineMisfit(
            f"{name} writes through {sink}, but the query declares a Kafka output",
            hint="return the writer without a sink of its own, or remove the output",
        )
    return writer.format("kafka").options(**options)


def check_sources(name: str, writer: DataStreamWriter, declared: Collection[str]) -> None:
    """Refuse a declared source that the query does not read: its place would be looked for and never found.

    Raises ``PipelineMisfit``.
    """
    read = {options.get(SOURCE_OPTION) for options in relation_options(writer)}
    unread = [source for source in declared if source not in read]
    if unread:
        raise PipelineMisfit(
            f"{name} does not read {_sources(unread)}",
            hint="read it in the pipeline, or remove it from the query's sources",
        )


def check_mode(name: str, writer: DataStreamWriter) -> None:
    """Refuse asynchronous progress tracking, wherever it was set: a batch would run before its offsets are written.

    Spark then writes the offset log late, and not for every batch (``AsyncProgressTrackingMicroBatchExecution``), so
    the log does not say what the sink has. Raises ``PipelineMisfit``.
    """
    options = private_field(java_writer(writer), "extraOptions")
    wanted = options.get(_ASYNC) if options is not None else None
    if wanted is not None and wanted.isDefined() and str(wanted.get()).lower() != "false":
        raise PipelineMisfit(
            f"{name} cannot be moved with {_ASYNC}: Spark then writes offsets after the batch, and not for each one",
            hint=f"remove the option {_ASYNC} from the pipeline's writer and from the query's output",
        )


def sink_of(writer: DataStreamWriter) -> tuple[str | None, str | None]:
    """The writer's sink format and its ``path``, as far as they are set."""
    java = java_writer(writer)
    options = private_field(java, "extraOptions")
    path = options.get("path") if options is not None else None
    sink = private_field(java, "source")
    return (None if sink is None else str(sink)), (str(path.get()) if path is not None and path.isDefined() else None)


def takes_settings(pipeline: Pipeline) -> bool:
    """Whether the function has a place for the query's settings."""
    kinds = [parameter.kind for parameter in inspect.signature(pipeline).parameters.values()]
    positional = kinds.count(inspect.Parameter.POSITIONAL_ONLY) + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return positional >= 2 or inspect.Parameter.VAR_POSITIONAL in kinds


def _import(name: str, module_name: str) -> ModuleType:
    importlib.invalidate_caches()  # the file may have been written since the last try
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        ours = error.name is not None and f"{module_name}.".startswith(f"{error.name}.")
        hint = "modules are looked for in the working directory and in the configuration's folder" if ours else ""
        raise PipelineMissing(f"{name}: there is no module {error.name}", hint=hint) from error
    except Exception as error:  # importing runs the user's code: any error can come out of it
        raise PipelineMissing(f"{name} does not import: {one_line(type(error).__name__, str(error))}") from error


def _check_untouched(name: str, writer: DataStreamWriter) -> None:
    java = java_writer(writer)
    options = private_field(java, "extraOptions")
    if options is not None and options.contains("checkpointLocation"):
        raise PipelineMisfit(
            f"{name} sets checkpointLocation", hint="remove it: the runner chooses the query's checkpoint"
        )
    trigger = private_field(java, "trigger")
    if trigger is not None and trigger.toString() != "ProcessingTimeTrigger(0)":
        raise PipelineMisfit(
            f"{name} sets a trigger", hint="remove it, and set the query's trigger in the configuration"
        )


def _sources(names: Sequence[str]) -> str:
    return f"source {names[0]}" if len(names) == 1 else f"sources {', '.join(names)}"


def _file(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or "a namespace package")


def _article(value: object) -> str:
    return "nothing" if value is None else f"{_with_article(type(value).__name__)}"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
