/* A process that loads the library, uses it and unloads it, again and again: loaded LIBRARY DATABASE. */
#include <dlfcn.h>
#include <sqlite3.h>
#include <stdio.h>

int main(int argc, char **argv){
  int i;
  (void)argc;
  for(i=0; i<3; i++){
    sqlite3 *db = 0;
    void *library = dlopen(argv[1], RTLD_NOW|RTLD_LOCAL);
    int (*xOpen)(const char*, sqlite3**) = library ? dlsym(library, "sqlite3_open") : 0;
    int (*xExec)(sqlite3*, const char*, void*, void*, char**) = library ? dlsym(library, "sqlite3_exec") : 0;
    int (*xClose)(sqlite3*) = library ? dlsym(library, "sqlite3_close") : 0;
    if( xOpen==0 || xExec==0 || xClose==0 ){
      printf("%s\n", dlerror());
      return 1;
    }
    if( xOpen(argv[2], &db) || xExec(db, "CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES(1)", 0, 0, 0)
     || xClose(db) || dlclose(library)
    ){
      printf("round %d failed\n", i);
      return 1;
    }
  }
  return 0;
}
