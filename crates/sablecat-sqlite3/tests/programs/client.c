/*
** A client of SQLite's C interface that knows nothing of sablecat: client DATABASE STATEMENT...
** Rows go to standard output, as do errors, with their codes.
*/
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static int show(void *unused, int n, char **values, char **names){
  int i;
  (void)unused, (void)names;
  for(i=0; i<n; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "");
  printf("\n");
  return 0;
}

int main(int argc, char **argv){
  sqlite3 *db = 0;
  int i, rc;
  if( strcmp(sqlite3_sourceid(), SQLITE_SOURCE_ID)!=0 || sqlite3_libversion_number()!=SQLITE_VERSION_NUMBER ){
    printf("the header is of %s, the library of %s\n", SQLITE_VERSION, sqlite3_libversion());
    return 1;
  }
  rc = sqlite3_open(argv[1], &db);
  if( rc==SQLITE_OK ) sqlite3_enable_load_extension(db, 1);
  for(i=2; i<argc && rc==SQLITE_OK; i++) rc = sqlite3_exec(db, argv[i], show, 0, 0);
  if( rc!=SQLITE_OK ) printf("error %d: %s\n", rc, sqlite3_errmsg(db));
  return sqlite3_close(db)!=SQLITE_OK;
}
