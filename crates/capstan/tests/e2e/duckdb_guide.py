"""Runs the SQL blocks of a guide with DuckDB, one after the other; prints what each gives, by its first comment, as JSON."""

import json
import sys

import duckdb

database = duckdb.connect()
database.execute("SET TimeZone = 'UTC'")
found = {}
for block in open(sys.argv[1], encoding="utf-8").read().split("```sql\n")[1:]:
    sql = block.split("```")[0]
    result = database.execute(sql)
    if sql.startswith("-- "):
        title = sql.splitlines()[0][3:]
        names = [column[0] for column in result.description]
        found[title] = [dict(zip(names, row)) for row in result.fetchall()]
for query in sys.argv[2:]:
    result = database.execute(query)
    names = [column[0] for column in result.description]
    found[query] = [dict(zip(names, row)) for row in result.fetchall()]
json.dump(found, sys.stdout, default=lambda value: list(value) if isinstance(value, bytes) else str(value))
