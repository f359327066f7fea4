/*
** The bytes of a database, given to connections that have others: serialized DATABASE. What these have then
** is in memory, whatever databases are made by default.
*/
#include <sqlite3.h>
#include <stdio.h>

#define WANT(is) if( !(is) ){ printf("line %d: %s: %s\n", __LINE__, #is, sqlite3_errmsg(db)); return 1; }

static int show(void *unused, int n, char **values, char **names){
  (void)unused, (void)n, (void)names;
  printf("%s\n", values[0]);
  return 0;
}

int main(int argc, char **argv){
  const char *azOther[2];
  int i;
  (void)argc;
  azOther[0] = ":memory:";
  azOther[1] = argv[1];
  for(i=0; i<2; i++){
    sqlite3 *db = 0, *other = 0;
    sqlite3_int64 n = 0;
    unsigned char *bytes;
    WANT( sqlite3_open(argv[1], &db)==SQLITE_OK );
    WANT( sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES(1)", 0, 0, 0)==SQLITE_OK );
    bytes = sqlite3_serialize(db, "main", &n, 0);
    WANT( bytes!=0 && n>0 );
    WANT( sqlite3_exec(db, "INSERT INTO t VALUES(2)", 0, 0, 0)==SQLITE_OK );
    WANT( sqlite3_open(azOther[i], &other)==SQLITE_OK );
    WANT( sqlite3_deserialize(other, "main", bytes, n, n,
            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE)==SQLITE_OK );
    WANT( sqlite3_exec(other, "INSERT INTO t VALUES(3)", 0, 0, 0)==SQLITE_OK );
    WANT( sqlite3_exec(other, "SELECT group_concat(a) FROM t", show, 0, 0)==SQLITE_OK );
    WANT( sqlite3_close(other)==SQLITE_OK );
    WANT( sqlite3_close(db)==SQLITE_OK );
  }
  return 0;
}
