/* An extension of SQLite, to be loaded: a function that doubles. */
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

static void twice(sqlite3_context *context, int n, sqlite3_value **values){
  (void)n;
  sqlite3_result_int64(context, 2*sqlite3_value_int64(values[0]));
}

int sqlite3_extension_init(sqlite3 *db, char **message, const sqlite3_api_routines *pApi){
  (void)message;
  SQLITE_EXTENSION_INIT2(pApi);
  return sqlite3_create_function(db, "twice", 1, SQLITE_UTF8, 0, twice, 0, 0);
}
