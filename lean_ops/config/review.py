"""Reads everything a repository has under review: topics, contracts and environments, with all their faults."""

from __future__ import annotations

from dataclasses import dataclass

from lean_ops.config.findings import Finding
from lean_ops.config.repository import Repository, environment_findings, load_topics
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts.contract_file import read_file


@dataclass(frozen=True)
class Review:
    """The topics that are fine, and every finding of every file."""

    topics: dict[str, TopicSpec]
    findings: tuple[Finding, ...]


def review(repository: Repository) -> Review:
    """Check every file; one bad file never hides another."""
    loaded = load_topics(repository)
    contracts = {
        path.parent.name: read_file(repository, path, loaded.topics.get(path.parent.name)).findings
        for path in repository.contract_files()
    }
    found = [finding for findings in contracts.values() for finding in findings]
    fine = {name: spec for name, spec in loaded.topics.items() if not contracts.get(name)}
    return Review(fine, tuple(sorted((*loaded.findings, *found, *environment_findings(repository)))))
