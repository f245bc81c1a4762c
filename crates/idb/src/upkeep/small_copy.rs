//! A copy of the tables in one file: what media cannot give back, and which segments there are, so that nothing passes for
//! whole whose medium is away. It is what a backup of the database holds; catalogs come from the media.
//!
//! It is an SQLite database of today's schema, whatever the store is, so that a later version of the program brings it up to
//! date as it does with any, and so that it comes back into either store.

use std::fs;
use std::path::Path;

use crate::db::{Conn, Idb, MIGRATIONS_TABLE, quoted};
use crate::decode::Fault;
use crate::error::IdbError;
use crate::home::files::DATABASE;
use crate::{Result, sql};

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
        let copy = Self::open_local(dir)?;
        let path = dir.join(DATABASE);
        if self.is_on_server() {
            drop(copy);
            self.copy_from_server(&path)?;
        } else {
            copy.attach_and_copy(&self.home().join(DATABASE))?;
            drop(copy);
        }
        fs::read(&path).map_err(|e| IdbError::io("read the copy", &path, e))
    }

    /// Fills this database, which is empty, with the rows of another file.
    fn attach_and_copy(&self, source: &Path) -> Result<()> {
        let source = source.display().to_string();
        self.read(format_args!("copy the tables"), async |conn| {
            // Nothing of it has to outlive a crash, and rows come in any order.
            for pragma in ["PRAGMA foreign_keys = OFF", "PRAGMA synchronous = OFF"] {
                sql::query(pragma).execute(conn).await?;
            }
            let attach = "ATTACH DATABASE $1 AS source";
            sql::query(attach).bind(&source).execute(conn).await?;
            sql::query("BEGIN").execute(conn).await?;
            let tables = "SELECT name FROM source.sqlite_master WHERE type = 'table' \
                          AND name NOT LIKE 'sqlite_%' ORDER BY name";
            for row in sql::query(tables).fetch_all(conn).await? {
                let name: String = row.try_get("name")?;
                // What the copy has by itself.
                if name != MIGRATIONS_TABLE {
                    copy_table(conn, &name).await?;
                }
            }
            sql::query("COMMIT").execute(conn).await?;
            sql::query("DETACH DATABASE source").execute(conn).await?;
            // One file, with nothing beside it.
            sql::query("PRAGMA journal_mode = DELETE").execute(conn).await?;
            Ok(())
        })
    }
}

/// Copies a table's rows by the names of its columns: their order may differ, as migrations come.
async fn copy_table(conn: &mut Conn<'_>, table: &str) -> std::result::Result<(), Fault> {
    let sql = "SELECT name FROM pragma_table_info($1, 'source')";
    let rows = sql::query(sql).bind(table).fetch_all(conn).await?;
    let mut columns = Vec::new();
    for row in &rows {
        columns.push(quoted(&row.try_get::<String>("name")?));
    }
    let (table, columns) = (quoted(table), columns.join(", "));
    let insert =
        format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM source.{table}");
    sql::query(sqlx::AssertSqlSafe(insert)).execute(conn).await?;
    Ok(())
}
