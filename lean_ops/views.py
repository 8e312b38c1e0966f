"""The views beside the tables: `{topic}_latest` and `all_errors`. Written once; Athena and DuckDB both read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lean_ops import named_sql, naming, tables

Identifier = tuple[str, str]
ColumnsOf = Callable[[Identifier], Sequence[str]]

# What the error tables have in common, and what one of them tells beyond it.
_ERROR_COLUMNS = (
    *(column.name for column in tables.ERRORS.columns if column in tables.DLQ_ERRORS.columns),
    "column_name",
    "rule",
    "contract_version",
)


@dataclass(frozen=True)
class View:
    """A view and the tables it reads."""

    identifier: Identifier
    sources: tuple[Identifier, ...]

    def query(self, columns_of: ColumnsOf) -> str:
        """What the view asks of the tables, which have the columns that they have now."""
        columns = {source: columns_of(source) for source in self.sources}
        if self.identifier == naming.ALL_ERRORS:
            named = [
                (name, named_sql.quoted((database, name)), columns[database, name])
                for database, name in self.sources
            ]
            return named_sql.render("view_all_errors", columns=_ERROR_COLUMNS, sources=named)
        (source,) = self.sources
        return named_sql.render("view_latest", standardized=named_sql.quoted(source), columns=columns[source])

    def ddl(self, columns_of: ColumnsOf) -> str:
        """The statement that makes the view in Athena; made again whenever the tables have new columns."""
        return f"create or replace view {named_sql.quoted(self.identifier)} as\n{self.query(columns_of)}"


def named(identifier: Identifier, exists: Callable[[Identifier], bool]) -> View | None:
    """The view of that name, on the tables that exist; None when it is no view's name or has no table at all."""
    database, name = identifier
    sources: tuple[Identifier, ...] = ()
    if identifier == naming.ALL_ERRORS:
        sources = tuple(spec.identifier for spec in tables.SHARED_TABLES)
    elif identifier == naming.latest_view(name.removesuffix("_latest")):
        sources = ((database, name.removesuffix("_latest")),)
    present = tuple(source for source in sources if exists(source))
    return View(identifier, present) if present else None
