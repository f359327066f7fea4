/*
** Counting, checking, and what is not of the b-tree but has to know whose it is.
*/

/* ---- Counting and checking ---- */

SQLITE_PRIVATE int sqlite3BtreeCount(sqlite3 *db, BtCursor *pCur, i64 *pnEntry){
  if( pCur->pSablecat==0 ) return STOCK(Count)(db, pCur, pnEntry);
  return sablecat_sql_count(pCur->pSablecat, pnEntry);
}

SQLITE_PRIVATE i64 sqlite3BtreeRowCountEst(BtCursor *pCur){
  i64 nEntry = 0;
  if( pCur->pSablecat==0 ) return STOCK(RowCountEst)(pCur);
  return sablecat_sql_estimate(pCur->pSablecat, &nEntry)==SQLITE_OK ? nEntry : -1;
}

/* What is wrong with the environment, if that is to be looked at; of SQLite's memory. */
static int sablecatVerify(Btree *p, char **pzOut){
  char *zFound = 0;
  int rc = sablecat_sql_verify(sablecatDb(p), &zFound);
  if( zFound ){
    *pzOut = sqlite3_mprintf("%s", zFound);
    sablecat_sql_free(zFound);
    if( *pzOut==0 ) rc = SQLITE_NOMEM_BKPT;
  }
  return rc;
}

#if SQLITE_VERSION_NUMBER>3040001
SQLITE_PRIVATE int sqlite3BtreeIntegrityCheck(
  sqlite3 *db,
  Btree *p,
  Pgno *aRoot,
  Mem *aCnt,
  int nRoot,
  int mxErr,
  int *pnErr,
  char **pzOut
){
  int rc = SQLITE_OK, i;
  if( p->pSablecat==0 ) return STOCK(IntegrityCheck)(db, p, aRoot, aCnt, nRoot, mxErr, pnErr, pzOut);
  *pzOut = 0;
  if( aRoot[0]!=0 ) rc = sablecatVerify(p, pzOut);
  *pnErr = *pzOut!=0;
  for(i=0; i<nRoot && rc==SQLITE_OK; i++){
    i64 nEntry = 0;
    if( aRoot[i] ) rc = sablecat_sql_check(sablecatDb(p), aRoot[i], &nEntry);
    sqlite3MemSetArrayInt64(aCnt, i, nEntry);
  }
  return rc;
}
#else
/* Here SQLite counts records itself, and an error is something found. */
SQLITE_PRIVATE char *sqlite3BtreeIntegrityCheck(
  sqlite3 *db,
  Btree *p,
  Pgno *aRoot,
  int nRoot,
  int mxErr,
  int *pnErr
){
  char *zFound = 0;
  int rc = SQLITE_OK, i;
  if( p->pSablecat==0 ) return STOCK(IntegrityCheck)(db, p, aRoot, nRoot, mxErr, pnErr);
  if( aRoot[0]!=0 ) rc = sablecatVerify(p, &zFound);
  for(i=0; i<nRoot && rc==SQLITE_OK; i++){
    i64 nEntry = 0;
    if( aRoot[i] ) rc = sablecat_sql_check(sablecatDb(p), aRoot[i], &nEntry);
  }
  if( rc!=SQLITE_OK && zFound==0 ) zFound = sqlite3_mprintf("%s", sqlite3ErrStr(rc));
  *pnErr = zFound!=0 || rc!=SQLITE_OK;
  return zFound;
}
#endif

/* dbstat comes to the next table or index. Of ours it has one row, as with aggregate=TRUE: there are no pages
** of SQLite's to go through. */
#if defined(SQLITE_ENABLE_DBSTAT_VTAB) || defined(SQLITE_TEST)
static int sablecatSizes(StatCursor *pCsr, Btree *p, u32 iRoot){
  SablecatSize size;
  int rc = sablecat_sql_size(sablecatDb(p), iRoot, &size);
  if( rc!=SQLITE_OK ) return rc;
  pCsr->isAgg = 1;
  pCsr->zName = (char*)sqlite3_column_text(pCsr->pStmt, 0);
  pCsr->iPageno = iRoot;
  pCsr->nPage = (int)MIN(size.nPage, 0x7fffffff);
  pCsr->nCell = (int)MIN(size.nRecord, 0x7fffffff);
  pCsr->nPayload = size.nByte;
  pCsr->szPage = size.nPage*size.szPage;
  pCsr->nUnused = MAX(pCsr->szPage - size.nByte, 0);
  return SQLITE_OK;
}
#endif

/* ---- What is not of the b-tree, and has to know ---- */

/* Whether VACUUM INTO names an environment that is there: SQLite looks at the size of a file, which it is
** not, and would add tables to it. */
static int sablecatIsThere(sqlite3 *db, sqlite3_value *pOut){
  unsigned int flags = db->openFlags;
  sqlite3_vfs *pVfs = 0;
  char *zPath = 0, *zError = 0;
  int isThere = 0;
  const char *zOut = sqlite3_value_type(pOut)==SQLITE_TEXT ? (const char*)sqlite3_value_text(pOut) : 0;
  if( zOut && sqlite3ParseUri(db->pVfs->zName, zOut, &flags, &pVfs, &zPath, &zError)==SQLITE_OK ){
    sablecat_sql_is_there(zPath, &isThere);
    sqlite3_free_filename(zPath);
  }
  sqlite3_free(zError);
  return isThere;
}

SQLITE_PRIVATE SQLITE_NOINLINE int sqlite3RunVacuum(
  char **pzErrMsg,
  sqlite3 *db,
  int iDb,
  sqlite3_value *pOut
){
  Btree *p = db->aDb[iDb].pBt;
  if( pOut && db->autoCommit && db->nVdbeActive<=1 && sablecatIsThere(db, pOut) ){
    sqlite3SetString(pzErrMsg, db, "output file already exists");
    return SQLITE_ERROR;
  }
  if( p==0 || p->pSablecat==0 || pOut ) return sablecatStock_sqlite3RunVacuum(pzErrMsg, db, iDb, pOut);
  if( !db->autoCommit ){
    sqlite3SetString(pzErrMsg, db, "cannot VACUUM from within a transaction");
    return SQLITE_ERROR;
  }
  if( db->nVdbeActive>1 ){
    sqlite3SetString(pzErrMsg, db, "cannot VACUUM - SQL statements in progress");
    return SQLITE_ERROR;
  }
  return sablecat_sql_compact(sablecatDb(p));
}

/* sqlite3_errmsg() asks for this as well, where a connection could not be opened. */
static const char *sablecatErrStr(int rc){
  const char *zMessage = rc>0xff ? sablecat_sql_message(rc) : 0;
  return zMessage ? zMessage : sablecatStock_sqlite3ErrStr(rc);
}

SQLITE_PRIVATE const char *sqlite3ErrStr(int rc){
  return sablecatErrStr(rc);
}

/* The words BEGIN CONCURRENT are the one token BEGIN: every transaction of ours is what they ask for. */
static i64 sablecatToken(const unsigned char *z, int *peType){
  i64 nToken = sqlite3GetToken(z, peType), nBoth = nToken, n;
  int eNext;
  if( *peType!=TK_BEGIN ) return nToken;
  do{
    n = sqlite3GetToken(&z[nBoth], &eNext);
    nBoth += n;
  }while( eNext==TK_SPACE
#ifdef TK_COMMENT
       || eNext==TK_COMMENT
#endif
  );
  if( eNext!=TK_ID || n!=10 || sqlite3StrNICmp((const char*)&z[nBoth-n], "concurrent", 10)!=0 ) return nToken;
  return nBoth;
}

/* How often a statement that is a transaction by itself runs again when another transaction got in its way,
** before it runs while nobody else may write. */
#define SABLECAT_RUNS 8

/* A statement that is a transaction by itself, of which nobody has seen anything, runs again when another
** transaction got in its way. */
SQLITE_API int sqlite3_step(sqlite3_stmt *pStmt){
  Vdbe *v = (Vdbe*)pStmt;
  sqlite3 *db = v ? v->db : 0;
  int isFresh, nRun, rc, i;
  if( db==0 ) return sablecatStock_sqlite3_step(pStmt);
  sqlite3_mutex_enter(db->mutex);
  isFresh = db->autoCommit && db->nVdbeActive==0 && v->eVdbeState!=VDBE_RUN_STATE;
  rc = sablecatStock_sqlite3_step(pStmt);
  for(nRun=1; isFresh && v->rc==SQLITE_BUSY_SNAPSHOT && db->autoCommit && nRun<=SABLECAT_RUNS+1; nRun++){
    sqlite3_reset(pStmt);
    for(i=0; nRun>=SABLECAT_RUNS && i<db->nDb; i++){
      Btree *p = db->aDb[i].pBt;
      if( p && p->pSablecat ) sablecat_sql_next_alone(sablecatDb(p));
    }
    rc = sablecatStock_sqlite3_step(pStmt);
  }
  sqlite3_mutex_leave(db->mutex);
  return rc;
}
