"""Where a process finds itself: its environment and its home folder, handed down in two variables.

Lambda functions, Spark jobs and Airflow tasks all start from these two; nothing else comes by variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from lean_ops.config.environments import EnvironmentSpec
from lean_ops.config.repository import Repository, load_environment
from lean_ops.errors import LeanOpsError
from lean_ops.naming import Names

ENVIRONMENT_VARIABLE = "LEAN_OPS_ENVIRONMENT"
HOME_VARIABLE = "LEAN_OPS_HOME"
DEFAULT_HOME = ".lean-ops"


@dataclass(frozen=True)
class Runtime:
    """An environment, and the folder that holds everything local (unused on AWS)."""

    environment: EnvironmentSpec
    home: Path

    @property
    def names(self) -> Names:
        return self.environment.names

    def variables(self) -> dict[str, str]:
        """What a child process needs to find itself in the same place."""
        return {
            ENVIRONMENT_VARIABLE: self.environment.model_dump_json(),
            HOME_VARIABLE: str(self.home),
            "AWS_REGION": self.environment.region,
            "AWS_DEFAULT_REGION": self.environment.region,
        }


def from_variables(variables: Mapping[str, str]) -> Runtime:
    """The runtime that a parent process (or a function's configuration) handed down."""
    text = variables.get(ENVIRONMENT_VARIABLE)
    if text is None:
        raise LeanOpsError(
            f"the variable {ENVIRONMENT_VARIABLE} is not set: this process does not know where it runs",
            next_step="start it through lean-ops, or set the variable to the environment as JSON",
        )
    try:
        environment = EnvironmentSpec.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "all of it"
        raise LeanOpsError(
            f"the variable {ENVIRONMENT_VARIABLE} does not hold an environment: {place}: {first['msg']}",
            next_step="deploy this process and its configuration from one release",
        ) from None
    return Runtime(environment, Path(variables.get(HOME_VARIABLE) or DEFAULT_HOME).absolute())


def from_repository(repository: Repository, name: str, variables: Mapping[str, str]) -> Runtime:
    """The runtime of a command that a person typed inside a repository."""
    home = variables.get(HOME_VARIABLE)
    return Runtime(
        load_environment(repository, name), Path(home).absolute() if home else repository.root / DEFAULT_HOME
    )
