"""Where lean-ops runs: one reviewed YAML file per environment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from lean_ops.config.specs import Spec
from lean_ops.config.topics import Count, EngineKind, EngineSize, Texts
from lean_ops.naming import Names, bucket_fault, prefix_fault


def _prefix(name: str) -> str:
    fault = prefix_fault(name)
    if fault:
        raise ValueError(fault)
    return name


def _bucket(name: str) -> str:
    fault = bucket_fault(name)
    if fault:
        raise ValueError(fault)
    return name


BucketName = Annotated[str, AfterValidator(_bucket)]


class BucketsSpec(Spec):
    """Bucket names that differ from the derived ones."""

    lake: BucketName | None = None
    ops: BucketName | None = None
    artifacts: BucketName | None = None


class CatalogSpec(Spec):
    """`sqlite` keeps catalog and files under the home folder; `glue` is AWS (or its emulation) with S3."""

    kind: Literal["sqlite", "glue"]


class SizeSpec(Spec):
    """What a size name means on Glue and EMR Serverless."""

    glue_worker: Literal["G.1X", "G.2X", "G.4X", "G.8X"] = "G.1X"
    workers: Annotated[int, Field(ge=2, le=100)] = 2
    executor_cores: Count = 4
    executor_memory_gb: Count = 16


class SizesSpec(Spec):
    """The sizes a topic may ask for."""

    small: SizeSpec = SizeSpec()
    medium: SizeSpec = SizeSpec(workers=4)
    large: SizeSpec = SizeSpec(glue_worker="G.2X", workers=8, executor_memory_gb=32)


class DefaultEngineSpec(Spec):
    """The engine of every topic that names none."""

    kind: EngineKind
    size: EngineSize = "small"


class EnvironmentAlertsSpec(Spec):
    """E-mail addresses or HTTPS endpoints subscribed to the alert topic."""

    targets: Texts = ()


class MwaaSpec(Spec):
    """The managed Airflow environment. 700 DAGs need at least a large one."""

    environment_class: Literal["mw1.small", "mw1.medium", "mw1.large", "mw1.xlarge", "mw1.2xlarge"]
    min_workers: Count = 1
    max_workers: Annotated[Count, Field(validate_default=True)] = 10

    @field_validator("max_workers")
    @classmethod
    def _room_to_grow(cls, most: int, info: ValidationInfo) -> int:
        if most < info.data.get("min_workers", 1):
            raise ValueError("a number of at least min_workers")
        return most


class EnvironmentSpec(Spec):
    """One environment."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,15}$")]
    account: Annotated[str, Field(pattern=r"^[0-9]{12}$")]
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
    name_prefix: Annotated[str, AfterValidator(_prefix)]
    buckets: BucketsSpec = BucketsSpec()
    catalog: CatalogSpec
    engine: DefaultEngineSpec
    sizes: SizesSpec = SizesSpec()
    alerts: EnvironmentAlertsSpec = EnvironmentAlertsSpec()
    mwaa: MwaaSpec | None = None
    pii_key_id: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9-]{0,30}$",
            description="Which key hashes PII columns from now on; rows that are there keep theirs.",
        ),
    ] = "1"

    @field_validator("engine")
    @classmethod
    def _within_reach_of_the_catalog(
        cls, engine: DefaultEngineSpec, info: ValidationInfo
    ) -> DefaultEngineSpec:
        catalog = info.data.get("catalog")
        if catalog is not None and catalog.kind == "sqlite" and engine.kind != "local":
            raise ValueError("kind: local, because a sqlite catalog is a file of this machine")
        return engine

    @property
    def emulated(self) -> bool:
        """Whether AWS is the local stack's emulation: then nothing may ever reach the real one."""
        return self.engine.kind == "local"

    @property
    def names(self) -> Names:
        """The names of this environment's resources, with the reviewed exceptions."""
        return Names(
            prefix=self.name_prefix,
            account=self.account,
            region=self.region,
            lake=self.buckets.lake,
            ops=self.buckets.ops,
            artifacts=self.buckets.artifacts,
        )
