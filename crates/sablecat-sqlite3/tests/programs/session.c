/* The session extension: what was changed in one database, recorded and applied to another. */
#define SQLITE_ENABLE_SESSION 1
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <sqlite3.h>
#include <stdio.h>

#define WANT(is) if( !(is) ){ printf("line %d: %s: %s\n", __LINE__, #is, sqlite3_errmsg(db)); return 1; }

static const char *TABLE =
  "CREATE TABLE t(k INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1,'a'),(2,'b'),(3,'c')";

static int conflict(void *unused, int what, sqlite3_changeset_iter *at){
  (void)unused, (void)what, (void)at;
  return SQLITE_CHANGESET_ABORT;
}

int main(int argc, char **argv){
  sqlite3 *db = 0, *other = 0;
  sqlite3_session *session = 0;
  void *changes = 0;
  int n = 0;
  (void)argc;
  WANT( sqlite3_open(argv[1], &db)==SQLITE_OK && sqlite3_open(argv[2], &other)==SQLITE_OK );
  WANT( sqlite3_exec(db, TABLE, 0, 0, 0)==SQLITE_OK && sqlite3_exec(other, TABLE, 0, 0, 0)==SQLITE_OK );
  WANT( sqlite3session_create(db, "main", &session)==SQLITE_OK );
  WANT( sqlite3session_attach(session, 0)==SQLITE_OK );
  WANT( sqlite3_exec(db, "UPDATE t SET v='z' WHERE k=1; DELETE FROM t WHERE k=2; INSERT INTO t VALUES(4,'d')",
                     0, 0, 0)==SQLITE_OK );
  WANT( sqlite3session_changeset(session, &n, &changes)==SQLITE_OK && n>0 );
  sqlite3session_delete(session);
  WANT( sqlite3changeset_apply(other, n, changes, 0, conflict, 0)==SQLITE_OK );
  sqlite3_free(changes);
  WANT( sqlite3_close(db)==SQLITE_OK && sqlite3_close(other)==SQLITE_OK );
  return 0;
}
