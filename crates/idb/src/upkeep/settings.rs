//! What a home is and remembers, by name.

use crate::db::Idb;
use crate::{Result, sql};

impl Idb {
    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Result<Option<String>> {
        self.read(format_args!("look up setting {name}"), async |conn| {
            let query = sql::query("SELECT value FROM settings WHERE name = $1").bind(name);
            let row = query.fetch_optional(conn).await?;
            Ok(row.map(|row| row.try_get("value")).transpose()?)
        })
    }

    /// Sets a setting that has no value yet; returns the value it has then. Of two processes at once one decides.
    pub fn setting_or(&self, name: &str, value: &str) -> Result<String> {
        if let Some(known) = self.setting(name)? {
            return Ok(known);
        }
        self.write(format_args!("record setting {name}"), async |conn| {
            let sql =
                "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
            sql::query(sql).bind(name).bind(value).execute(&mut *conn).await?;
            let query = sql::query("SELECT value FROM settings WHERE name = $1").bind(name);
            Ok(query.fetch_one(conn).await?.try_get("value")?)
        })
    }

    /// The settings whose names begin so, as name and value, by name. What is given has neither % nor _.
    pub fn settings_of(&self, begin: &str) -> Result<Vec<(String, String)>> {
        self.read(format_args!("list settings {begin}"), async |conn| {
            let sql = "SELECT name, value FROM settings WHERE name LIKE $1 ORDER BY name";
            let rows = sql::query(sql).bind(format!("{begin}%")).fetch_all(conn).await?;
            let of = |row: &sql::Row| Ok((row.try_get("name")?, row.try_get("value")?));
            rows.iter().map(of).collect()
        })
    }

    /// Removes a setting, if it is there.
    pub fn remove_setting(&self, name: &str) -> Result<()> {
        self.write(format_args!("remove setting {name}"), async |conn| {
            sql::query("DELETE FROM settings WHERE name = $1").bind(name).execute(conn).await?;
            Ok(())
        })
    }

    /// Sets a setting, whatever it was.
    pub fn put_setting(&self, name: &str, value: &str) -> Result<()> {
        self.write(format_args!("record setting {name}"), async |conn| {
            let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) \
                       ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            sql::query(sql).bind(name).bind(value).execute(conn).await?;
            Ok(())
        })
    }
}
