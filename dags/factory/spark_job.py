"""One hop of a topic as a task, whatever engine runs it: the same arguments in, the same answer as XCom."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from dags.factory import release
from dags.factory.asked import asked_by
from dags.factory.failures import checked, told_to_airflow
from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.config.topics import TopicSpec
from lean_ops.gates import Gate, hop_gate


class SparkJob(BaseOperator):
    """Runs a hop until it has caught up; an engine says how, in `start`.

    Whether there is anything to do is asked of the lake once more, so that a cleared task, a second hop alone or
    a run that was overtaken never starts Spark for nothing. Without a topic of its own, a subclass takes it from
    the run's parameters.
    """

    ui_color = "#d6e6f2"
    topic: TopicSpec

    def __init__(self, *, hop: str, topic: TopicSpec | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.hop = hop
        if topic is not None:
            self.topic = topic

    def execute(self, context: Context) -> dict[str, Any]:
        with told_to_airflow():
            gate = self._gate(context)
            if not gate.open:
                return self.idle(gate.reason)
            return self.start(context, self._arguments(context))

    def start(self, context: Context, arguments: JobArguments) -> dict[str, Any]:
        """Run the job on the engine, or defer until it is done."""
        raise NotImplementedError

    def idle(self, reason: str) -> dict[str, Any]:
        """The answer of a job that was not needed."""
        self.log.info("Spark is not started: %s", reason)
        return self.finish(JobResult(topic=self.topic.topic, hop=self.hop, caught_up=True, batches=()))

    def finish(self, result: JobResult) -> dict[str, Any]:
        """The answer as XCom; a failure fails the task in the way its class wants."""
        for batch in result.batches:
            self.log.info("batch %s: %s", batch.batch_id, batch.counts)
        return checked(result).model_dump(mode="json")

    def _arguments(self, context: Context) -> JobArguments:
        asked = context["params"]
        # A snapshot belongs to one table: the source of the first hop that was asked for.
        first = self.hop == ("curate" if asked["hop"] == "curate" else "standardize")
        return JobArguments(topic=self.topic, until_snapshot=asked["until_snapshot"] if first else None)

    def _gate(self, context: Context) -> Gate:
        from lean_ops.aws.gate_facts import gate_reader

        asked = asked_by(context["params"])
        facts = gate_reader(release.runtime()).facts(self.topic)
        hop = facts.standardize if self.hop == "standardize" else facts.curate
        if hop is None or asked.hop not in ("all", self.hop):
            return Gate(open=False, reason=f"{self.hop} was not asked for")
        return hop_gate(hop, asked)
