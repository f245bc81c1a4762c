//! A machine without memory. The bound is of the whole process: this test has one of its own.

use capstan_idb::Idb;
use sqlx::Connection;

#[test]
fn pages_that_cannot_be_looked_at_for_want_of_memory_are_not_called_damaged() {
    let home = tempfile::tempdir().unwrap();
    let idb = Idb::open(home.path()).unwrap();
    assert_eq!(idb.page_damage(true).unwrap(), [""; 0]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let memory = sqlx::SqliteConnection::connect("sqlite::memory:");
    let mut conn = runtime.block_on(memory).unwrap();
    // It can only be lowered.
    let refused = (1..500).rev().find_map(|n| {
        let sql = sqlx::AssertSqlSafe(format!("PRAGMA hard_heap_limit = {}", n * 8192));
        let bound = runtime.block_on(sqlx::raw_sql(sql).execute(&mut conn));
        bound.is_ok().then(|| idb.page_damage(true).err()).flatten()
    });
    let refused = refused.unwrap();
    assert!(refused.is_for_want_of_memory(), "{refused:?}");
    assert!(refused.to_string().contains("no memory left"), "{refused}");
}
