/*
** A process that forks while it has a database open: forked DATABASE. The child opens it anew; what the
** parent had open it is told to leave alone.
*/
#include <sqlite3.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WANT(is) if( !(is) ){ printf("line %d: %s: %s\n", __LINE__, #is, sqlite3_errmsg(db)); return 1; }

int main(int argc, char **argv){
  sqlite3 *db = 0, *again = 0;
  int status = 0;
  pid_t child;
  (void)argc;
  WANT( sqlite3_open(argv[1], &db)==SQLITE_OK );
  WANT( sqlite3_exec(db, "CREATE TABLE t(a); INSERT INTO t VALUES(1)", 0, 0, 0)==SQLITE_OK );
  fflush(stdout);
  child = fork();
  if( child==0 ){
    WANT( sqlite3_exec(db, "INSERT INTO t VALUES(2)", 0, 0, 0)!=SQLITE_OK );
    WANT( sqlite3_open(argv[1], &again)==SQLITE_OK );
    db = again;
    WANT( sqlite3_exec(db, "INSERT INTO t VALUES(3)", 0, 0, 0)==SQLITE_OK );
    WANT( sqlite3_close(db)==SQLITE_OK );
    return 0;
  }
  WANT( waitpid(child, &status, 0)==child && status==0 );
  WANT( sqlite3_exec(db, "INSERT INTO t VALUES(4)", 0, 0, 0)==SQLITE_OK );
  WANT( sqlite3_close(db)==SQLITE_OK );
  return 0;
}
