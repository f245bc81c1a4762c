//! Paths that versions were to have and of which they lack something.

use std::collections::HashMap;

use capstan_format::id::VersionId;

use crate::Result;
use crate::db::Idb;
use crate::decode::{self, Fault};
use crate::rows::Version;
use crate::sql::{self, Row};
use crate::versions::objects::version;

impl Idb {
    /// Records what a version lacks: paths, as messages write them. An empty text stands for what cannot be named.
    pub fn set_lacks(&self, version: VersionId, paths: &[String]) -> Result<()> {
        self.put_lacks(version, paths, "")
    }

    /// The same, as a medium has it: what is recorded stays.
    pub fn import_lacks(&self, version: VersionId, paths: &[String]) -> Result<()> {
        self.put_lacks(version, paths, " AND lacks IS NULL")
    }

    fn put_lacks(&self, version: VersionId, paths: &[String], and: &'static str) -> Result<()> {
        self.write(format_args!("record what version {} lacks", version.short()), async |conn| {
            let mut query = sql::Builder::new("UPDATE versions SET lacks = ");
            query.push_bind(decode::texts_in("lacks", paths)?);
            query.push(" WHERE id = ").push_bind(version.to_string()).push(and);
            query.build().execute(conn).await?;
            Ok(())
        })
    }

    /// What each version lacks of which that is recorded; nothing at all, of one that lacks nothing.
    pub fn lacks(&self) -> Result<HashMap<VersionId, Vec<String>>> {
        self.read(format_args!("look up what versions lack"), async |conn| {
            let sql = "SELECT id, lacks FROM versions WHERE lacks IS NOT NULL";
            sql::query(sql).fetch_all(conn).await?.iter().map(lacks).collect()
        })
    }

    /// The versions of which nothing is recorded, and that may lack something: they were completed with errors, or stand for others.
    pub fn versions_without_lacks(&self) -> Result<Vec<Version>> {
        self.read(format_args!("look up what versions lack"), async |conn| {
            let sql = "SELECT * FROM versions WHERE lacks IS NULL \
                       AND (status = 'completed_with_errors' OR stands_for_id IS NOT NULL)";
            sql::query(sql).fetch_all(conn).await?.iter().map(version).collect()
        })
    }

    /// What a version lacks, where that is recorded.
    pub fn lacks_of(&self, version: VersionId) -> Result<Option<Vec<String>>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let sql = "SELECT id, lacks FROM versions WHERE id = $1 AND lacks IS NOT NULL";
            let row = sql::query(sql).bind(version.to_string()).fetch_optional(conn).await?;
            Ok(row.as_ref().map(lacks).transpose()?.map(|(_, paths)| paths))
        })
    }
}

fn lacks(row: &Row) -> std::result::Result<(VersionId, Vec<String>), Fault> {
    Ok((decode::parsed(row, "id")?, decode::texts(row, "lacks")?))
}
