//! What the tables need on PostgreSQL beside the steps of the schema, and what can be said of them there.

use std::collections::{BTreeMap, BTreeSet};

use capstan_engine::problem::Problem;

use sqlx::AssertSqlSafe;

use super::MIGRATIONS_TABLE;
use crate::decode::{self, Fault};
use crate::error::IdbError;
use crate::sql::{self, Conn};

/// The tables below the schema that names without one mean.
const TABLES: &str = "SELECT CAST(c.relname AS TEXT) AS name FROM pg_class c \
                      JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE c.relkind = 'r' AND n.nspname = current_schema() ORDER BY c.relname";

/// A table and a column of it.
type Column = (String, String);

/// What there was before the steps are applied; refuses a database that has the tables of another program.
pub(super) async fn before(conn: &mut Conn<'_>, place: &str) -> Result<BTreeSet<Column>, Fault> {
    let tables = tables(conn).await?;
    if !tables.is_empty() && !tables.iter().any(|name| name == MIGRATIONS_TABLE) {
        return Err(IdbError::Mismatch(
            Problem::new(format!(
                "the database {place} has tables of another program ({})",
                tables.join(", ")
            ))
            .hint("name an empty one in capstan.toml"),
        )
        .into());
    }
    sorted_elsewise(conn).await
}

/// Makes new columns sort by their bytes, as they do on SQLite: whatever the database's own order is, ranges of identities
/// and lists by name mean the same. And makes the table in which writers leave their marks.
pub(super) async fn after(conn: &mut Conn<'_>, before: &BTreeSet<Column>) -> Result<(), Fault> {
    let mut changes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, column) in sorted_elsewise(conn).await?.difference(before) {
        let change = format!("ALTER COLUMN {} TYPE TEXT COLLATE \"C\"", quoted(column));
        changes.entry(quoted(table)).or_default().push(change);
    }
    for (table, changes) in changes {
        let sql = format!("ALTER TABLE {table} {}", changes.join(", "));
        sql::query(AssertSqlSafe(sql)).execute(conn).await?;
    }
    let sql = "CREATE TABLE IF NOT EXISTS capstan_writers (id TEXT NOT NULL PRIMARY KEY, \
               serial BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now())";
    sql::query(sql).execute(conn).await?;
    Ok(())
}

/// Columns of text that do not sort by their bytes.
async fn sorted_elsewise(conn: &mut Conn<'_>) -> Result<BTreeSet<Column>, Fault> {
    let sql = "SELECT CAST(table_name AS TEXT) AS t, CAST(column_name AS TEXT) AS c \
               FROM information_schema.columns WHERE table_schema = current_schema() \
               AND data_type = 'text' AND COALESCE(CAST(collation_name AS TEXT), '') <> 'C'";
    let rows = sql::query(sql).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((row.try_get("t")?, row.try_get("c")?))).collect()
}

async fn tables(conn: &mut Conn<'_>) -> Result<Vec<String>, Fault> {
    let rows = sql::query(TABLES).fetch_all(conn).await?;
    rows.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// The bytes of all tables with their indexes.
pub(super) async fn size(conn: &mut Conn<'_>) -> Result<u64, Fault> {
    let sql = "SELECT CAST(COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS BIGINT) AS bytes \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.relkind = 'r' AND n.nspname = current_schema()";
    decode::count(&sql::query(sql).fetch_one(conn).await?, "bytes")
}

/// What of the tables cannot be read: every row is, in full.
pub(super) async fn damage(conn: &mut Conn<'_>) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for table in tables(conn).await? {
        let sql = format!("SELECT COUNT(CAST(t AS TEXT)) AS rows FROM {} t", quoted(&table));
        match sql::query(AssertSqlSafe(sql)).fetch_one(conn).await {
            Ok(_) => {}
            Err(sqlx::Error::Database(e))
                if e.code().is_some_and(|code| code.starts_with("XX")) =>
            {
                found.push(format!("table {table}: {e}"));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(found)
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
