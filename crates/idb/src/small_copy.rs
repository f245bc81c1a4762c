//! A copy of the tables in one file: what media cannot give back, and which segments there are, so that nothing passes for
//! whole whose medium is away. It is what a backup of the database holds; catalogs come from the media.
//!
//! It is a database of today's schema, so that a later version of the program brings it up to date as it does with any.
//! What is particular to SQLite is here and in `db`.

use std::fs;
use std::path::Path;

use sqlx::Row as _;

use crate::Result;
use crate::db::Idb;
use crate::decode::Fault;
use crate::error::IdbError;

/// What the copy has by itself.
const LEFT_OUT: [&str; 1] = ["_sqlx_migrations"];

/// The database's file below a home.
const DATABASE: &str = "capstan.db";

impl Idb {
    /// The copy, as the bytes of a database.
    pub fn small_copy(&self) -> Result<Vec<u8>> {
        let dir = self.home().join(format!("copy.{}.tmp", std::process::id()));
        let made = self.copy_into(&dir);
        let removed = fs::remove_dir_all(&dir);
        let bytes = made?;
        removed.map_err(|e| IdbError::io("remove the directory", &dir, e))?;
        Ok(bytes)
    }

    fn copy_into(&self, dir: &Path) -> Result<Vec<u8>> {
        if dir.exists() {
            // Left by a process of the same number that was killed.
            fs::remove_dir_all(dir).map_err(|e| IdbError::io("remove the directory", dir, e))?;
        }
        let copy = Self::open(dir)?;
        let source = self.home().join(DATABASE).display().to_string();
        copy.read(format_args!("copy the tables"), async |conn| {
            // Nothing of it has to outlive a crash, and rows come in any order.
            for sql in ["PRAGMA foreign_keys = OFF", "PRAGMA synchronous = OFF"] {
                sqlx::query(sql).execute(&mut *conn).await?;
            }
            let attach = "ATTACH DATABASE $1 AS source";
            sqlx::query(attach).bind(&source).execute(&mut *conn).await?;
            sqlx::query("BEGIN").execute(&mut *conn).await?;
            let tables = "SELECT name FROM source.sqlite_master WHERE type = 'table' \
                          AND name NOT LIKE 'sqlite_%' ORDER BY name";
            for row in sqlx::query(tables).fetch_all(&mut *conn).await? {
                let name: String = row.try_get("name")?;
                if !LEFT_OUT.contains(&name.as_str()) {
                    copy_table(conn, &name).await?;
                }
            }
            sqlx::query("COMMIT").execute(&mut *conn).await?;
            sqlx::query("DETACH DATABASE source").execute(&mut *conn).await?;
            // One file, with nothing beside it.
            sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut *conn).await?;
            Ok(())
        })?;
        drop(copy);
        let path = dir.join(DATABASE);
        fs::read(&path).map_err(|e| IdbError::io("read the copy", &path, e))
    }
}

/// Copies a table's rows by the names of its columns: their order may differ, as migrations come.
async fn copy_table(conn: &mut crate::db::Conn, table: &str) -> std::result::Result<(), Fault> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let sql = "SELECT name FROM pragma_table_info($1, 'source')";
    let rows = sqlx::query(sql).bind(table).fetch_all(&mut *conn).await?;
    let mut columns = Vec::new();
    for row in &rows {
        columns.push(quoted(&row.try_get::<String, _>("name")?));
    }
    let (table, columns) = (quoted(table), columns.join(", "));
    let insert =
        format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM source.{table}");
    sqlx::query(sqlx::AssertSqlSafe(insert)).execute(conn).await?;
    Ok(())
}
