//! Statements, values and rows, the same for every store.
//!
//! A statement has the form that `sqlx` gives it. What it runs on is known only when the program runs, so the choice between
//! the drivers is made here, once for each kind of call.

use sqlx::postgres::PgRow;
use sqlx::query::Query as Prepared;
use sqlx::sqlite::SqliteRow;
use sqlx::{
    AssertSqlSafe, Database, Decode, Encode, PgConnection, Postgres, SqlSafeStr, SqlStr, Sqlite,
    SqliteConnection, Type,
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// A connection, or a transaction on it.
pub(crate) enum Conn<'c> {
    /// On a file.
    Sqlite(&'c mut SqliteConnection),
    /// On a server.
    Postgres(&'c mut PgConnection),
}

/// A value that goes with a statement. One that is absent has a type too: PostgreSQL asks for it.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Bool(bool),
}

/// A statement with its values.
pub(crate) struct Query {
    sql: SqlStr,
    values: Vec<Value>,
}

/// A statement, with `$1` and so on in the places of its values.
pub(crate) fn query(sql: impl SqlSafeStr) -> Query {
    Query { sql: sql.into_sql_str(), values: Vec::new() }
}

impl Query {
    /// Gives the next value.
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    pub async fn execute(self, conn: &mut Conn<'_>) -> Result<Done> {
        Ok(Done(match conn {
            Conn::Sqlite(conn) => {
                prepared::<Sqlite>(self).execute(&mut **conn).await?.rows_affected()
            }
            Conn::Postgres(conn) => {
                prepared::<Postgres>(self).execute(&mut **conn).await?.rows_affected()
            }
        }))
    }

    pub async fn fetch_all(self, conn: &mut Conn<'_>) -> Result<Vec<Row>> {
        Ok(match conn {
            Conn::Sqlite(conn) => {
                let rows = prepared::<Sqlite>(self).fetch_all(&mut **conn).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Conn::Postgres(conn) => {
                let rows = prepared::<Postgres>(self).fetch_all(&mut **conn).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    pub async fn fetch_optional(self, conn: &mut Conn<'_>) -> Result<Option<Row>> {
        Ok(match conn {
            Conn::Sqlite(conn) => {
                prepared::<Sqlite>(self).fetch_optional(&mut **conn).await?.map(Row::Sqlite)
            }
            Conn::Postgres(conn) => {
                prepared::<Postgres>(self).fetch_optional(&mut **conn).await?.map(Row::Postgres)
            }
        })
    }

    pub async fn fetch_one(self, conn: &mut Conn<'_>) -> Result<Row> {
        self.fetch_optional(conn).await?.ok_or(sqlx::Error::RowNotFound)
    }
}

fn prepared<DB: Database>(query: Query) -> Prepared<'static, DB, DB::Arguments>
where
    Option<String>: Encode<'static, DB> + Type<DB>,
    Option<i64>: Encode<'static, DB> + Type<DB>,
    bool: Encode<'static, DB> + Type<DB>,
{
    query.values.into_iter().fold(sqlx::query(query.sql), |query, value| match value {
        Value::Text(text) => query.bind(text),
        Value::Int(int) => query.bind(int),
        Value::Bool(is) => query.bind(is),
    })
}

/// What a statement changed.
pub(crate) struct Done(u64);

impl Done {
    pub const fn rows_affected(&self) -> u64 {
        self.0
    }
}

/// A row of a result.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// What a column can be read as.
pub(crate) trait Column<'r>:
    Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>
{
}

impl<'r, T> Column<'r> for T where
    T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>
{
}

impl Row {
    /// The value of a column.
    pub fn try_get<'r, T: Column<'r>>(&'r self, column: &str) -> Result<T> {
        match self {
            Self::Sqlite(row) => sqlx::Row::try_get(row, column),
            Self::Postgres(row) => sqlx::Row::try_get(row, column),
        }
    }
}

/// A statement that is put together: lists are as long as what they hold.
pub(crate) struct Builder {
    sql: String,
    values: Vec<Value>,
}

impl Builder {
    pub fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), values: Vec::new() }
    }

    pub fn push(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    pub fn push_bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        self.sql.push_str(&format!("${}", self.values.len()));
        self
    }

    /// Values with commas between them.
    pub fn push_list(&mut self, values: impl IntoIterator<Item: Into<Value>>) -> &mut Self {
        for (n, value) in values.into_iter().enumerate() {
            if n > 0 {
                self.sql.push_str(", ");
            }
            self.push_bind(value);
        }
        self
    }

    /// The statement. What was pushed is text of this program, values are bound.
    pub fn build(self) -> Query {
        Query { sql: AssertSqlSafe(self.sql).into_sql_str(), values: self.values }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(Some(text.clone()))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<&Option<String>> for Value {
    fn from(text: &Option<String>) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        Self::Text(text.map(ToOwned::to_owned))
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Self::Int(Some(int))
    }
}

impl From<Option<i64>> for Value {
    fn from(int: Option<i64>) -> Self {
        Self::Int(int)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_put_together_with_numbered_values() {
        let mut query = Builder::new("UPDATE t SET a = ");
        query.push_bind(7).push(" WHERE id IN (").push_list(["x", "y"]).push(")");
        assert_eq!(query.sql, "UPDATE t SET a = $1 WHERE id IN ($2, $3)");
        assert_eq!(query.values.len(), 3);
    }
}
