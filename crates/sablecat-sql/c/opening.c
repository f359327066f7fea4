/*
** Opening, closing and settings.
*/

/* ---- Opening and closing ---- */

/* There where this is the C library of programs that ask for SQLite, crates/sablecat-sqlite3. */
extern const int sablecat_sql_is_c_library __attribute__((weak));

SQLITE_PRIVATE int sqlite3BtreeOpen(
  sqlite3_vfs *pVfs,
  const char *zFilename,
  sqlite3 *db,
  Btree **ppBtree,
  int flags,
  int vfsFlags
){
  SablecatBtree *pOurs;
  void *pDb = 0;
  int rc = SQLITE_OK;

  /* A connection is being opened. libsqlite3-sys gives Rust programs foreign keys that are enforced, systems'
  ** libraries do not. */
  if( ppBtree==&db->aDb[0].pBt && !db->init.reopenMemdb && &sablecat_sql_is_c_library==0 ){
    db->flags |= SQLITE_ForeignKeys;
  }

  if( zFilename!=0 && zFilename[0]!=0 && strcmp(zFilename, ":memory:")!=0
   && (vfsFlags & SQLITE_OPEN_MAIN_DB)!=0 && (vfsFlags & SQLITE_OPEN_MEMORY)==0
   && (flags & BTREE_MEMORY)==0 && !sqlite3IsMemdb(pVfs)
  ){
    const char *zEngine = sqlite3_uri_parameter(zFilename, "engine");
    SablecatStatements statements;
    statements.pnWriting = &db->nVdbeWrite;
    statements.pnRunning = &db->nVdbeExec;
    rc = sablecat_sql_open(zFilename, zEngine, vfsFlags, &statements, &pDb);
  }
  if( rc!=SQLITE_OK ) return rc;
  if( pDb==0 ) return STOCK(Open)(pVfs, zFilename, db, ppBtree, flags, vfsFlags);

  pOurs = sqlite3MallocZero(sizeof(*pOurs));
  if( pOurs ) pOurs->zFilename = (char*)sqlite3_create_filename(zFilename, "", "", 0, 0);
  if( pOurs==0 || pOurs->zFilename==0 ){
    rc = SQLITE_NOMEM_BKPT;
  }else{
    rc = STOCK(Open)(pVfs, ":memory:", db, ppBtree, flags | BTREE_MEMORY,
                     vfsFlags & ~SQLITE_OPEN_SHAREDCACHE);
  }
  if( rc!=SQLITE_OK ){
    if( pOurs ) sqlite3_free_filename(pOurs->zFilename);
    sqlite3_free(pOurs);
    sablecat_sql_close(pDb);
    return rc;
  }
  pOurs->pDb = pDb;
  pOurs->eSync = PAGER_SYNCHRONOUS_FULL;
  (*ppBtree)->pSablecat = pOurs;
  if( vfsFlags & SQLITE_OPEN_READONLY ) (*ppBtree)->pBt->btsFlags |= BTS_READ_ONLY;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeClose(Btree *p){
  SablecatBtree *pOurs = sablecatOf(p);
  if( pOurs ){
    while( p->pBt->pCursor ) sqlite3BtreeCloseCursor(p->pBt->pCursor);
    sqlite3BtreeRollback(p, SQLITE_OK, 0);
    sablecat_sql_end(pOurs->pDb);
    p->inTrans = TRANS_NONE;
    p->pSablecat = 0;
    sablecat_sql_close(pOurs->pDb);
    sqlite3_free_filename(pOurs->zFilename);
    sqlite3_free(pOurs->aRow);
    sqlite3_free(pOurs);
  }
  return STOCK(Close)(p);
}

SQLITE_PRIVATE const char *sqlite3BtreeGetFilename(Btree *p){
  return p->pSablecat ? sablecatOf(p)->zFilename : STOCK(GetFilename)(p);
}

/* ---- Settings ---- */

SQLITE_PRIVATE int sqlite3BtreeSetPagerFlags(Btree *p, unsigned pgFlags){
  if( p->pSablecat ) sablecatOf(p)->eSync = pgFlags & PAGER_SYNCHRONOUS_MASK;
  return STOCK(SetPagerFlags)(p, pgFlags);
}

SQLITE_PRIVATE int sqlite3BtreeSetAutoVacuum(Btree *p, int autoVacuum){
  return p->pSablecat ? SQLITE_READONLY : STOCK(SetAutoVacuum)(p, autoVacuum);
}

SQLITE_PRIVATE int sqlite3BtreeSetVersion(Btree *p, int iVersion){
  return p->pSablecat ? SQLITE_OK : STOCK(SetVersion)(p, iVersion);
}

/* PRAGMA sablecat_isolation, which says how isolated transactions are, and has those be so that are to
** come. */
static int sablecatPragma(Btree *p, char **azFcntl){
  const char *zIs = 0;
  int rc;
  if( sqlite3StrICmp(azFcntl[1], "sablecat_isolation")!=0 ) return SQLITE_NOTFOUND;
  if( azFcntl[2] && p->db->autoCommit==0 ){
    azFcntl[0] = sqlite3_mprintf("the isolation may not be changed inside a transaction");
    return SQLITE_ERROR;
  }
  rc = sablecat_sql_isolation(sablecatDb(p), azFcntl[2], &zIs);
  azFcntl[0] = sqlite3_mprintf("%s", rc==SQLITE_OK ? zIs : sablecat_sql_message(rc));
  return rc;
}

SQLITE_API int sqlite3_file_control(sqlite3 *db, const char *zDbName, int op, void *pArg){
  int rc;
  Btree *p;
  sqlite3_mutex_enter(db->mutex);
  p = sqlite3DbNameToBtree(db, zDbName);
  if( p && p->pSablecat && op==SQLITE_FCNTL_PRAGMA ){
    rc = sablecatPragma(p, (char**)pArg);
  }else if( p && p->pSablecat && op==SQLITE_FCNTL_DATA_VERSION ){
    rc = sablecat_sql_version(sablecatDb(p), (u32*)pArg);
  }else{
    rc = sablecatStock_sqlite3_file_control(db, zDbName, op, pArg);
  }
  sqlite3_mutex_leave(db->mutex);
  return rc;
}

SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p){
  u32 iRoot = 0; /* Not known, to SQLite, if it cannot be read */
  if( p->pSablecat==0 ) return STOCK(LastPage)(p);
  sablecat_sql_last_root(sablecatDb(p), &iRoot);
  return iRoot;
}

SQLITE_PRIVATE int sqlite3BtreeCheckpoint(Btree *p, int eMode, int *pnLog, int *pnCkpt){
  if( p==0 || p->pSablecat==0 ) return STOCK(Checkpoint)(p, eMode, pnLog, pnCkpt);
  if( p->inTrans!=TRANS_NONE ) return SQLITE_LOCKED;
  if( pnLog ) *pnLog = 0;
  if( pnCkpt ) *pnCkpt = 0;
  return sablecat_sql_checkpoint(sablecatDb(p));
}

SQLITE_PRIVATE int sqlite3BtreeCopyFile(Btree *pTo, Btree *pFrom){
  if( pTo->pSablecat || pFrom->pSablecat ) return SQLITE_ERROR;
  return STOCK(CopyFile)(pTo, pFrom);
}

/* Whether a pager is the empty one of a Btree of ours. */
static int sablecatPager(Pager *pPager){
  BtShared *pBt = (BtShared*)pPager->pBusyHandlerArg;
  int i;
  if( pBt==0 || pPager->memDb==0 || pPager->xBusyHandler!=btreeInvokeBusyHandler ) return 0;
  for(i=0; i<pBt->db->nDb; i++){
    Btree *p = pBt->db->aDb[i].pBt;
    if( p && p->pBt==pBt ) return p->pSablecat!=0;
  }
  return 0;
}

/* Readers stop no writer and writers no reader: what programs mean that ask for WAL, and look whether they
** have it. There is no other mode. */
SQLITE_PRIVATE int sqlite3PagerGetJournalMode(Pager *pPager){
  if( sablecatPager(pPager) ) return PAGER_JOURNALMODE_WAL;
  return sablecatStock_sqlite3PagerGetJournalMode(pPager);
}

SQLITE_PRIVATE int sqlite3PagerSetJournalMode(Pager *pPager, int eMode){
  if( sablecatPager(pPager) ) return PAGER_JOURNALMODE_WAL;
  return sablecatStock_sqlite3PagerSetJournalMode(pPager, eMode);
}

SQLITE_PRIVATE int sqlite3PagerCloseWal(Pager *pPager, sqlite3 *db){
  if( sablecatPager(pPager) ) return SQLITE_OK;
  return sablecatStock_sqlite3PagerCloseWal(pPager, db);
}
