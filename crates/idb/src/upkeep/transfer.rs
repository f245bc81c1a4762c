//! Rows from one store to another: table by table, some hundred rows at a time, as JSON, which both read and write with the
//! types of their columns. What tables and columns there are, the file says: it has the schema of this program.

use capstan_engine::problem::Problem;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

use crate::db::{MIGRATIONS_TABLE, quoted};
use crate::decode::{Fault, Row};
use crate::error::IdbError;
use crate::sql::{self, Conn};

/// Rows that are carried at once: a session's report can be long.
const AT_ONCE: i64 = 200;

/// A table, with its columns.
struct Table {
    name: String,
    columns: Vec<String>,
}

impl Table {
    /// The columns, each written as `with` says, with commas between them.
    fn list(&self, with: impl Fn(&str) -> String) -> String {
        self.columns.iter().map(|column| with(column)).collect::<Vec<_>>().join(", ")
    }
}

/// Copies all rows of a file into a database on a server, in the transaction that is open there. Refuses one that has rows.
pub(crate) async fn to_server(
    file: &mut SqliteConnection,
    server: &mut PgConnection,
    place: &str,
) -> Result<u64, Fault> {
    let mut copied = 0;
    for table in tables(file).await? {
        let name = quoted(&table.name);
        let any = format!("SELECT 1 AS one FROM {name} LIMIT 1");
        let any = statement(any).fetch_optional(&mut Conn::Postgres(server)).await?;
        if any.is_some() {
            return Err(IdbError::Mismatch(
                Problem::new(format!("the database {place} has rows already ({})", table.name))
                    .hint("name an empty one in capstan.toml"),
            )
            .into());
        }
        let object = table.list(|column| format!("'{column}', {}", quoted(column)));
        let select = format!(
            "SELECT rowid AS row, json_object({object}) AS json FROM {name} WHERE rowid > $1 \
             ORDER BY rowid LIMIT {AT_ONCE}"
        );
        let columns = table.list(quoted);
        let insert = format!(
            "INSERT INTO {name} ({columns}) SELECT {columns} \
             FROM json_populate_recordset(CAST(NULL AS {name}), CAST($1 AS JSON))"
        );
        let mut last = i64::MIN;
        loop {
            let rows = statement(select.clone()).bind(last);
            let rows = rows.fetch_all(&mut Conn::Sqlite(file)).await?;
            let Some(end) = rows.last() else { break };
            last = end.try_get("row")?;
            let json = array(&rows)?;
            let insert = statement(insert.clone()).bind(json);
            copied += insert.execute(&mut Conn::Postgres(server)).await?.rows_affected();
        }
    }
    Ok(copied)
}

/// Copies all rows of a database on a server, whose state stays the same meanwhile, into an empty file.
pub(crate) async fn to_file(
    server: &mut PgConnection,
    file: &mut SqliteConnection,
) -> Result<(), Fault> {
    // Nothing of it has to outlive a crash, and rows come in any order.
    for pragma in ["PRAGMA foreign_keys = OFF", "PRAGMA synchronous = OFF"] {
        sql::query(pragma).execute(&mut Conn::Sqlite(file)).await?;
    }
    let tables = tables(file).await?;
    let mut filling = file.begin().await?;
    for table in &tables {
        let name = quoted(&table.name);
        let cursor = format!(
            "DECLARE copied NO SCROLL CURSOR FOR SELECT CAST(row_to_json(t) AS TEXT) AS json FROM {name} t"
        );
        statement(cursor).execute(&mut Conn::Postgres(server)).await?;
        let values = table.list(|column| format!("json_extract(value, '$.\"{column}\"')"));
        let insert = format!(
            "INSERT INTO {name} ({}) SELECT {values} FROM json_each($1)",
            table.list(quoted)
        );
        loop {
            let fetch = statement(format!("FETCH {AT_ONCE} FROM copied"));
            let rows = fetch.fetch_all(&mut Conn::Postgres(server)).await?;
            if rows.is_empty() {
                break;
            }
            let insert = statement(insert.clone()).bind(array(&rows)?);
            insert.execute(&mut Conn::Sqlite(&mut filling)).await?;
        }
        sql::query("CLOSE copied").execute(&mut Conn::Postgres(server)).await?;
    }
    filling.commit().await?;
    // One file, with nothing beside it.
    sql::query("PRAGMA journal_mode = DELETE").execute(&mut Conn::Sqlite(file)).await?;
    Ok(())
}

/// The tables of a file, in the order in which they were made: none refers to a later one.
async fn tables(file: &mut SqliteConnection) -> Result<Vec<Table>, Fault> {
    let conn = &mut Conn::Sqlite(file);
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
               ORDER BY rowid";
    let mut tables = Vec::new();
    for row in sql::query(sql).fetch_all(conn).await? {
        let name: String = row.try_get("name")?;
        if name == MIGRATIONS_TABLE {
            continue;
        }
        let sql = "SELECT name FROM pragma_table_info($1)";
        let rows = sql::query(sql).bind(&name).fetch_all(conn).await?;
        let columns = rows.iter().map(|row| row.try_get("name"));
        tables.push(Table { name, columns: columns.collect::<Result<_, _>>()? });
    }
    Ok(tables)
}

fn statement(sql: String) -> sql::Query {
    sql::query(AssertSqlSafe(sql))
}

/// Rows that are JSON objects, as one array.
fn array(rows: &[Row]) -> Result<String, sqlx::Error> {
    let mut json = String::from("[");
    for (n, row) in rows.iter().enumerate() {
        if n > 0 {
            json.push(',');
        }
        json.push_str(row.try_get("json")?);
    }
    json.push(']');
    Ok(json)
}
