/*
** Where SQLite calls its b-tree, and either that or sablecat's answers.
**
** This file ends SQLite's amalgamation, sees all of it, and defines what was renamed there: each function
** passes a call on to SQLite's own, sablecatStock_*, unless the Btree or BtCursor is sablecat's.
**
** A Btree of sablecat's is an empty one of SQLite's, in memory, with pSablecat set. So whatever is not about
** records (mutexes, the parsed schema, lists of connections, settings of the pager) is answered by SQLite's own
** code, and nothing of it needs another definition. Its cursors are SQLite's structure as well, on SQLite's
** list, in SQLite's states:
**
**   VALID        at a record, whose row id and content are in `info`
**   INVALID      nowhere
**   SKIPNEXT     between records: at a key of which there is none
**   REQUIRESEEK  at a key of which a record was there before something was written
**   FAULT        not to be used: `skipNext` is the error
**
** The rest is in Rust (src/border): a handle of the database and one of each cursor. Those functions never
** unwind, and return SQLite's result codes.
*/

#define STOCK(name) sablecatStock_sqlite3Btree##name

/* A value of a key to be found. */
typedef struct SablecatValue {
  u8 eType;                  /* 0 null, 1 integer, 2 real, 3 text, 4 blob */
  u32 nByte;                 /* Of text and blobs */
  u32 nZero;                 /* Zeros after these */
  i64 iValue;
  double rValue;
  const void *pByte;
} SablecatValue;

/* The record at which a cursor stands. */
typedef struct SablecatRow {
  i64 iRowid;
  const void *pData;         /* Good until the cursor is moved or used to write */
  u32 nData;
  u8 isThere;
} SablecatRow;

/* How a column of a key is ordered. */
typedef struct SablecatOrder {
  u8 eCollation;             /* 0 BINARY, 1 NOCASE, 2 RTRIM */
  u8 isDescending;
} SablecatOrder;

/* What a Btree of sablecat's has. */
typedef struct SablecatBtree {
  void *pDb;                 /* Rust's */
  char *zFilename;
  int eSync;                 /* As PRAGMA synchronous says */
  u8 isCommitted;            /* By phase one, of which phase two is to come */
  void *aRow;                /* A row that sqlite3BtreeTransferRow() left for the next insert */
  u32 nRow;
} SablecatBtree;

/* src/border */
extern int sablecat_sql_open(const char*, const char*, int, void**);
extern void sablecat_sql_close(void*);
extern int sablecat_sql_begin(void*, int isWrite, int isAlone, int isExplicit);
extern int sablecat_sql_commit(void*, int eSync);
extern void sablecat_sql_end(void*);
extern int sablecat_sql_savepoints(void*, int nSavepoint);
extern int sablecat_sql_savepoint(void*, int isRollback, int iSavepoint);
extern int sablecat_sql_create(void*, u32*);
extern int sablecat_sql_drop(void*, u32);
extern int sablecat_sql_clear(void*, u32, i64*);
extern int sablecat_sql_meta(void*, int, u32*);
extern int sablecat_sql_set_meta(void*, int, u32);
extern u32 sablecat_sql_last_root(void*);
extern int sablecat_sql_checkpoint(void*);
extern int sablecat_sql_compact(void*);
extern int sablecat_sql_verify(void*, char**);
extern int sablecat_sql_check(void*, u32, i64*);
extern void sablecat_sql_next_alone(void*);
extern const char *sablecat_sql_message(int);
extern void sablecat_sql_free(char*);
extern int sablecat_sql_cursor(void*, u32, const SablecatOrder*, u32, int eEncoding, void**);
extern void sablecat_sql_cursor_close(void*);
extern int sablecat_sql_edge(void*, int isLast, SablecatRow*);
extern int sablecat_sql_step(void*, int isForward, SablecatRow*);
extern int sablecat_sql_refresh(void*, SablecatRow*);
extern int sablecat_sql_seek_rowid(void*, i64, SablecatRow*);
extern int sablecat_sql_seek_key(void*, const SablecatValue*, u32, int eWhere, SablecatRow*);
extern int sablecat_sql_insert(void*, i64, const void*, u32, u32 nZero);
extern int sablecat_sql_insert_key(void*, const void*, u32);
extern int sablecat_sql_delete(void*);
extern int sablecat_sql_count(void*, i64*);
extern int sablecat_sql_estimate(void*, i64*);

/* Where sablecat_sql_seek_key() goes, of the records whose keys begin with the values */
#define SABLECAT_ANY     0   /* To one of them, the first, or between records */
#define SABLECAT_BEFORE  1   /* Between records, before the first of them */
#define SABLECAT_AFTER   2   /* Between records, after the last of them */
#define SABLECAT_LAST    3   /* To the last of them, or between records */
#define SABLECAT_FIRST   4   /* To the first of them, from where to go on */

static SablecatBtree *sablecatOf(Btree *p){
  return (SablecatBtree*)p->pSablecat;
}

static void *sablecatDb(Btree *p){
  return sablecatOf(p)->pDb;
}

/* ---- Opening and closing ---- */

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

  if( zFilename!=0 && zFilename[0]!=0 && strcmp(zFilename, ":memory:")!=0
   && (vfsFlags & SQLITE_OPEN_MAIN_DB)!=0 && (vfsFlags & SQLITE_OPEN_MEMORY)==0
   && (flags & BTREE_MEMORY)==0
  ){
    const char *zEngine = sqlite3_uri_parameter(zFilename, "engine");
    rc = sablecat_sql_open(zFilename, zEngine, vfsFlags, &pDb);
  }
  if( rc!=SQLITE_OK ) return rc;
  if( pDb==0 ) return STOCK(Open)(pVfs, zFilename, db, ppBtree, flags, vfsFlags);

  pOurs = sqlite3MallocZero(sizeof(*pOurs));
  if( pOurs ) pOurs->zFilename = (char*)sqlite3_create_filename(zFilename, "", "", 0, 0);
  if( pOurs==0 || pOurs->zFilename==0 ){
    rc = SQLITE_NOMEM_BKPT;
  }else{
    rc = STOCK(Open)(pVfs, ":memory:", db, ppBtree, flags | BTREE_MEMORY, vfsFlags & ~SQLITE_OPEN_SHAREDCACHE);
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

SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p){
  return p->pSablecat ? sablecat_sql_last_root(sablecatDb(p)) : STOCK(LastPage)(p);
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

/* ---- Cursors as the transaction goes on ---- */

/* Something was written: a record that a cursor stands at may be another one, or gone. */
static void sablecatMoved(Btree *p, Pgno iRoot, BtCursor *pExcept){
  BtCursor *pCur;
  for(pCur=p->pBt->pCursor; pCur; pCur=pCur->pNext){
    if( pCur!=pExcept && (iRoot==0 || pCur->pgnoRoot==iRoot) && pCur->eState==CURSOR_VALID ){
      pCur->eState = CURSOR_REQUIRESEEK;
    }
  }
}

/* Blobs that are open in a row are not to be used any more once that was written. */
static void sablecatExpireBlobs(Btree *p, Pgno iRoot, i64 iRow, int isAll){
  BtCursor *pCur;
  if( p->hasIncrblobCur==0 ) return;
  for(pCur=p->pBt->pCursor; pCur; pCur=pCur->pNext){
    if( (pCur->curFlags & BTCF_Incrblob)!=0 && pCur->pgnoRoot==iRoot && (isAll || pCur->info.nKey==iRow) ){
      pCur->eState = CURSOR_INVALID;
    }
  }
}

SQLITE_PRIVATE int sqlite3BtreeTripAllCursors(Btree *p, int errCode, int writeOnly){
  BtCursor *pCur;
  if( p==0 || p->pSablecat==0 ) return STOCK(TripAllCursors)(p, errCode, writeOnly);
  for(pCur=p->pBt->pCursor; pCur; pCur=pCur->pNext){
    if( writeOnly && (pCur->curFlags & BTCF_WriteFlag)==0 ){
      if( pCur->eState==CURSOR_VALID ) pCur->eState = CURSOR_REQUIRESEEK;
    }else{
      pCur->eState = CURSOR_FAULT;
      pCur->skipNext = errCode;
    }
  }
  return SQLITE_OK;
}

/* ---- Transactions ---- */

/* Whether it is a BEGIN IMMEDIATE or EXCLUSIVE that asks for a transaction to write: these, and nothing else
** that does, have an OP_AutoCommit. */
static int sablecatIsBegin(sqlite3 *db){
  Vdbe *v;
  int i;
  for(v=db->pVdbe; v; v=v->pVNext){
    if( v->eVdbeState!=VDBE_RUN_STATE ) continue;
    for(i=0; i<v->nOp; i++){
      if( v->aOp[i].opcode==OP_AutoCommit ) return 1;
    }
  }
  return 0;
}

SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wrflag, int *pSchemaVersion){
  int rc = SQLITE_OK;
  if( p->pSablecat==0 ) return STOCK(BeginTrans)(p, wrflag, pSchemaVersion);
  if( p->inTrans==TRANS_NONE || (p->inTrans==TRANS_READ && wrflag) ){
    int isExplicit = p->db->autoCommit==0;
    int isAlone = wrflag && (wrflag>1 || (!isExplicit && sablecatIsBegin(p->db)));
    if( wrflag && (p->pBt->btsFlags & BTS_READ_ONLY)!=0 ) return SQLITE_READONLY;
    do{
      rc = sablecat_sql_begin(sablecatDb(p), wrflag, isAlone, isExplicit || isAlone);
    }while( rc==SQLITE_BUSY && p->inTrans==TRANS_NONE && sqlite3InvokeBusyHandler(&p->db->busyHandler) );
    if( rc!=SQLITE_OK ) return rc;
    p->inTrans = wrflag ? TRANS_WRITE : TRANS_READ;
    sablecatOf(p)->isCommitted = 0;
  }
  if( pSchemaVersion ) rc = sablecat_sql_meta(sablecatDb(p), BTREE_SCHEMA_VERSION, (u32*)pSchemaVersion);
  if( rc==SQLITE_OK && wrflag ) rc = sablecat_sql_savepoints(sablecatDb(p), p->db->nSavepoint);
  return rc;
}

/* The transaction is over. Statements that still read go on, in the state that there is now. */
static int sablecatEnd(Btree *p){
  int rc = SQLITE_OK;
  if( p->inTrans>TRANS_NONE && p->db->nVdbeRead>1 ){
    if( p->inTrans==TRANS_WRITE ){
      sablecat_sql_end(sablecatDb(p));
      sablecatMoved(p, 0, 0);
      rc = sablecat_sql_begin(sablecatDb(p), 0, 0, p->db->autoCommit==0);
      if( rc!=SQLITE_OK ) sqlite3BtreeTripAllCursors(p, rc, 0);
    }
    p->inTrans = TRANS_READ;
  }else{
    sablecat_sql_end(sablecatDb(p));
    p->inTrans = TRANS_NONE;
  }
  return rc;
}

/* This is the commit: it may fail, which phase two may not. */
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  SablecatBtree *pOurs = sablecatOf(p);
  int rc = SQLITE_OK;
  if( pOurs==0 ) return STOCK(CommitPhaseOne)(p, zSuperJrnl);
  if( p->inTrans==TRANS_WRITE && !pOurs->isCommitted ){
    rc = sablecat_sql_commit(pOurs->pDb, pOurs->eSync);
    pOurs->isCommitted = rc==SQLITE_OK;
  }
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseTwo(Btree *p, int bCleanup){
  if( p->pSablecat==0 ) return STOCK(CommitPhaseTwo)(p, bCleanup);
  if( p->inTrans==TRANS_NONE ) return SQLITE_OK;
  sablecatEnd(p);
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCommit(Btree *p){
  int rc;
  if( p->pSablecat==0 ) return STOCK(Commit)(p);
  rc = sqlite3BtreeCommitPhaseOne(p, 0);
  return rc==SQLITE_OK ? sqlite3BtreeCommitPhaseTwo(p, 0) : rc;
}

SQLITE_PRIVATE int sqlite3BtreeRollback(Btree *p, int tripCode, int writeOnly){
  if( p->pSablecat==0 ) return STOCK(Rollback)(p, tripCode, writeOnly);
  if( tripCode==SQLITE_OK ){
    sablecatMoved(p, 0, 0);
  }else{
    sqlite3BtreeTripAllCursors(p, tripCode, writeOnly);
  }
  return sablecatEnd(p);
}

SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int iStatement){
  if( p->pSablecat==0 ) return STOCK(BeginStmt)(p, iStatement);
  return sablecat_sql_savepoints(sablecatDb(p), iStatement);
}

SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){
  if( p==0 || p->pSablecat==0 ) return STOCK(Savepoint)(p, op, iSavepoint);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( op==SAVEPOINT_ROLLBACK ) sablecatMoved(p, 0, 0);
  return sablecat_sql_savepoint(sablecatDb(p), op==SAVEPOINT_ROLLBACK, iSavepoint);
}

/* ---- Trees and numbers ---- */

SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *piTable, int flags){
  if( p->pSablecat==0 ) return STOCK(CreateTable)(p, piTable, flags);
  return sablecat_sql_create(sablecatDb(p), piTable);
}

SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int iTable, int *piMoved){
  if( p->pSablecat==0 ) return STOCK(DropTable)(p, iTable, piMoved);
  *piMoved = 0;
  sablecatMoved(p, (Pgno)iTable, 0);
  sablecatExpireBlobs(p, (Pgno)iTable, 0, 1);
  return sablecat_sql_drop(sablecatDb(p), (u32)iTable);
}

SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int iTable, i64 *pnChange){
  i64 nGone = 0;
  int rc;
  if( p->pSablecat==0 ) return STOCK(ClearTable)(p, iTable, pnChange);
  sablecatMoved(p, (Pgno)iTable, 0);
  sablecatExpireBlobs(p, (Pgno)iTable, 0, 1);
  rc = sablecat_sql_clear(sablecatDb(p), (u32)iTable, &nGone);
  if( pnChange ) *pnChange += nGone;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeClearTableOfCursor(BtCursor *pCur){
  if( pCur->pSablecat==0 ) return STOCK(ClearTableOfCursor)(pCur);
  return sqlite3BtreeClearTable(pCur->pBtree, (int)pCur->pgnoRoot, 0);
}

SQLITE_PRIVATE void sqlite3BtreeGetMeta(Btree *p, int idx, u32 *pValue){
  if( p->pSablecat==0 ){
    STOCK(GetMeta)(p, idx, pValue);
  }else if( sablecat_sql_meta(sablecatDb(p), idx, pValue)!=SQLITE_OK ){
    /* The transaction remembers, and does not commit. */
    *pValue = 0;
  }
}

SQLITE_PRIVATE int sqlite3BtreeUpdateMeta(Btree *p, int idx, u32 iValue){
  if( p->pSablecat==0 ) return STOCK(UpdateMeta)(p, idx, iValue);
  return sablecat_sql_set_meta(sablecatDb(p), idx, iValue);
}

/* ---- Cursors ---- */

/* How a cursor's keys are ordered; an error if that is something that keys cannot be written by. */
static int sablecatOrder(KeyInfo *pKeyInfo, SablecatOrder *aOrder){
  int i;
  for(i=0; i<pKeyInfo->nKeyField; i++){
    CollSeq *pColl = pKeyInfo->aColl[i];
    if( pColl==0 || pColl->xCmp==sqlite3BinaryCompare ){
      aOrder[i].eCollation = 0;
    }else if( pColl->xCmp==nocaseCollatingFunc ){
      aOrder[i].eCollation = 1;
    }else if( pColl->xCmp==rtrimCollFunc ){
      aOrder[i].eCollation = 2;
    }else{
      sqlite3_log(SQLITE_ERROR, "sablecat: an index by the collation %s, which a program defines; only BINARY,"
                  " NOCASE and RTRIM can be indexed", pColl->zName);
      return SQLITE_ERROR_MISSING_COLLSEQ;
    }
    aOrder[i].isDescending = pKeyInfo->aSortFlags && (pKeyInfo->aSortFlags[i] & KEYINFO_ORDER_DESC)!=0;
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCursor(
  Btree *p,
  Pgno iTable,
  int wrFlag,
  struct KeyInfo *pKeyInfo,
  BtCursor *pCur
){
  SablecatOrder aFew[16], *aOrder = aFew;
  u32 nOrder = pKeyInfo ? pKeyInfo->nKeyField : 0;
  int rc = SQLITE_OK;
  if( p->pSablecat==0 ) return STOCK(Cursor)(p, iTable, wrFlag, pKeyInfo, pCur);
  if( iTable<1 ) return SQLITE_CORRUPT_BKPT;
  if( nOrder>ArraySize(aFew) ){
    aOrder = sqlite3Malloc(nOrder*sizeof(aOrder[0]));
    if( aOrder==0 ) return SQLITE_NOMEM_BKPT;
  }
  if( pKeyInfo ) rc = sablecatOrder(pKeyInfo, aOrder);
  if( rc==SQLITE_OK ){
    rc = sablecat_sql_cursor(sablecatDb(p), iTable, pKeyInfo ? aOrder : 0, nOrder,
                             pKeyInfo ? pKeyInfo->enc : SQLITE_UTF8, &pCur->pSablecat);
  }
  if( aOrder!=aFew ) sqlite3_free(aOrder);
  if( rc!=SQLITE_OK ) return rc;
  pCur->pgnoRoot = iTable;
  pCur->iPage = -1;
  pCur->pKeyInfo = pKeyInfo;
  pCur->pBtree = p;
  pCur->pBt = p->pBt;
  pCur->curFlags = wrFlag ? BTCF_WriteFlag : 0;
  pCur->eState = CURSOR_INVALID;
  memset(&pCur->info, 0, sizeof(pCur->info));
  pCur->pNext = p->pBt->pCursor;
  p->pBt->pCursor = pCur;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *pCur){
  BtCursor **ppCur;
  if( pCur->pSablecat==0 ) return STOCK(CloseCursor)(pCur);
  for(ppCur=&pCur->pBt->pCursor; *ppCur; ppCur=&(*ppCur)->pNext){
    if( *ppCur==pCur ){
      *ppCur = pCur->pNext;
      break;
    }
  }
  sablecat_sql_cursor_close(pCur->pSablecat);
  pCur->pSablecat = 0;
  pCur->pBtree = 0;
  return SQLITE_OK;
}

/* A cursor was moved: it stands at a record, or in the state that goes with there being none. */
static int sablecatStand(BtCursor *pCur, int rc, SablecatRow *pRow, u8 eElse){
  if( rc!=SQLITE_OK ){
    pCur->eState = CURSOR_FAULT;
    pCur->skipNext = rc;
  }else if( pRow->isThere ){
    pCur->eState = CURSOR_VALID;
    pCur->info.nKey = pRow->iRowid;
    pCur->info.pPayload = (u8*)pRow->pData;
    pCur->info.nPayload = pRow->nData;
  }else{
    pCur->eState = eElse;
  }
  return rc;
}

static int sablecatEdge(BtCursor *pCur, int isLast, int *pRes){
  SablecatRow row;
  int rc = sablecat_sql_edge(pCur->pSablecat, isLast, &row);
  rc = sablecatStand(pCur, rc, &row, CURSOR_INVALID);
  *pRes = pCur->eState!=CURSOR_VALID;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeFirst(BtCursor *pCur, int *pRes){
  return pCur->pSablecat ? sablecatEdge(pCur, 0, pRes) : STOCK(First)(pCur, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *pCur, int *pRes){
  return pCur->pSablecat ? sablecatEdge(pCur, 1, pRes) : STOCK(Last)(pCur, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  return pCur->pSablecat ? sablecatEdge(pCur, 0, pRes) : STOCK(IsEmpty)(pCur, pRes);
}

static int sablecatStep(BtCursor *pCur, int isForward){
  SablecatRow row;
  int rc;
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_DONE;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  rc = sablecat_sql_step(pCur->pSablecat, isForward, &row);
  rc = sablecatStand(pCur, rc, &row, CURSOR_INVALID);
  return rc==SQLITE_OK && pCur->eState!=CURSOR_VALID ? SQLITE_DONE : rc;
}

SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  return pCur->pSablecat ? sablecatStep(pCur, 1) : STOCK(Next)(pCur, flags);
}

SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  return pCur->pSablecat ? sablecatStep(pCur, 0) : STOCK(Previous)(pCur, flags);
}

/* Goes back to the record that a cursor was at, if that is there. */
static int sablecatRestore(BtCursor *pCur){
  SablecatRow row;
  int rc;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  if( pCur->eState!=CURSOR_REQUIRESEEK ) return SQLITE_OK;
  rc = sablecat_sql_refresh(pCur->pSablecat, &row);
  return sablecatStand(pCur, rc, &row, CURSOR_SKIPNEXT);
}

SQLITE_PRIVATE int sqlite3BtreeCursorRestore(BtCursor *pCur, int *pDifferentRow){
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(CursorRestore)(pCur, pDifferentRow);
  rc = sablecatRestore(pCur);
  *pDifferentRow = rc!=SQLITE_OK || pCur->eState!=CURSOR_VALID;
  return rc;
}

/* SQLite asks for this where a seek went to something less than the key, and there may be nothing. Seeks that
** find nothing leave a cursor between records; the one before is looked for here. */
SQLITE_PRIVATE int sqlite3BtreeEof(BtCursor *pCur){
  if( pCur->pSablecat==0 ) return STOCK(Eof)(pCur);
  if( pCur->eState==CURSOR_SKIPNEXT ) sablecatStep(pCur, 0);
  return pCur->eState!=CURSOR_VALID;
}

SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int biasRight, int *pRes){
  SablecatRow row;
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(TableMoveto)(pCur, intKey, biasRight, pRes);
  rc = sablecat_sql_seek_rowid(pCur->pSablecat, intKey, &row);
  rc = sablecatStand(pCur, rc, &row, CURSOR_SKIPNEXT);
  *pRes = pCur->eState==CURSOR_VALID ? 0 : -1;
  return rc;
}

static int sablecatValue(Mem *pMem, SablecatValue *pValue){
  memset(pValue, 0, sizeof(*pValue));
  if( pMem->flags & (MEM_Int|MEM_IntReal) ){
    pValue->eType = 1;
    pValue->iValue = pMem->u.i;
  }else if( pMem->flags & MEM_Real ){
    pValue->eType = 2;
    pValue->rValue = pMem->u.r;
  }else if( pMem->flags & (MEM_Str|MEM_Blob) ){
    pValue->eType = (pMem->flags & MEM_Str) ? 3 : 4;
    pValue->pByte = pMem->z;
    pValue->nByte = (u32)pMem->n;
    if( pMem->flags & MEM_Zero ) pValue->nZero = (u32)pMem->u.nZero;
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pKey, int *pRes){
  SablecatValue aFew[8], *aValue = aFew;
  SablecatRow row;
  int nValue, isWhole, eWhere, rc, i;
  if( pCur->pSablecat==0 ) return STOCK(IndexMoveto)(pCur, pKey, pRes);

  /* Keys are made of the first nKeyField columns, by which a record is the only one. What a caller knows
  ** beyond these is compared with that record. */
  isWhole = pKey->nField>pCur->pKeyInfo->nKeyField;
  nValue = isWhole ? pCur->pKeyInfo->nKeyField : pKey->nField;
  if( nValue>ArraySize(aFew) ){
    aValue = sqlite3Malloc(nValue*sizeof(aValue[0]));
    if( aValue==0 ) return SQLITE_NOMEM_BKPT;
  }
  for(i=0; i<nValue; i++) sablecatValue(&pKey->aMem[i], &aValue[i]);

  /* What SQLite says of a record that begins as the key does: it is the one, greater, or less. */
  if( isWhole || pKey->default_rc==0 ){
    eWhere = SABLECAT_ANY;
  }else if( sqlite3BtreeCursorHasHint(pCur, BTREE_SEEK_EQ) ){
    eWhere = pKey->default_rc>0 ? SABLECAT_FIRST : SABLECAT_LAST;
  }else{
    eWhere = pKey->default_rc>0 ? SABLECAT_BEFORE : SABLECAT_AFTER;
  }
  rc = sablecat_sql_seek_key(pCur->pSablecat, aValue, (u32)nValue, eWhere, &row);
  if( aValue!=aFew ) sqlite3_free(aValue);
  rc = sablecatStand(pCur, rc, &row, CURSOR_SKIPNEXT);
  if( pCur->eState!=CURSOR_VALID ){
    *pRes = -1;
  }else if( isWhole ){
    *pRes = sqlite3VdbeRecordCompare((int)pCur->info.nPayload, pCur->info.pPayload, pKey);
  }else{
    pKey->eqSeen = 1;
    *pRes = pKey->default_rc;
  }
  return rc;
}

/* ---- Records ---- */

SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  return pCur->pSablecat ? pCur->info.nKey : STOCK(IntegerKey)(pCur);
}

SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  return pCur->pSablecat ? 0 : STOCK(Offset)(pCur);
}

SQLITE_PRIVATE u32 sqlite3BtreePayloadSize(BtCursor *pCur){
  return pCur->pSablecat ? pCur->info.nPayload : STOCK(PayloadSize)(pCur);
}

SQLITE_PRIVATE const void *sqlite3BtreePayloadFetch(BtCursor *pCur, u32 *pAmt){
  if( pCur->pSablecat==0 ) return STOCK(PayloadFetch)(pCur, pAmt);
  *pAmt = pCur->info.nPayload;
  return pCur->info.pPayload;
}

SQLITE_PRIVATE sqlite3_int64 sqlite3BtreeMaxRecordSize(BtCursor *pCur){
  return pCur->pSablecat ? SQLITE_MAX_LENGTH : STOCK(MaxRecordSize)(pCur);
}

SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  if( pCur->pSablecat==0 ) return STOCK(Payload)(pCur, offset, amt, pBuf);
  if( (u64)offset+amt>pCur->info.nPayload ) return SQLITE_CORRUPT_BKPT;
  memcpy(pBuf, pCur->info.pPayload + offset, amt);
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreePayloadChecked(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(PayloadChecked)(pCur, offset, amt, pBuf);
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_ABORT;
  rc = sablecatRestore(pCur);
  if( rc==SQLITE_OK && pCur->eState!=CURSOR_VALID ) rc = SQLITE_ABORT;
  return rc==SQLITE_OK ? sqlite3BtreePayload(pCur, offset, amt, pBuf) : rc;
}

SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *pCur, u32 offset, u32 amt, void *pNew){
  SablecatRow row;
  u8 *aData;
  u32 nData;
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(PutData)(pCur, offset, amt, pNew);
  rc = sablecatRestore(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  if( (pCur->curFlags & BTCF_WriteFlag)==0 ) return SQLITE_READONLY;
  nData = pCur->info.nPayload;
  if( (u64)offset+amt>nData ) return SQLITE_CORRUPT_BKPT;
  aData = sqlite3Malloc(nData);
  if( aData==0 ) return SQLITE_NOMEM_BKPT;
  memcpy(aData, pCur->info.pPayload, nData);
  memcpy(&aData[offset], pNew, amt);
  sablecatMoved(pCur->pBtree, pCur->pgnoRoot, pCur);
  rc = sablecat_sql_insert(pCur->pSablecat, pCur->info.nKey, aData, nData, 0);
  sqlite3_free(aData);
  if( rc!=SQLITE_OK ) return rc;
  rc = sablecat_sql_refresh(pCur->pSablecat, &row);
  return sablecatStand(pCur, rc, &row, CURSOR_SKIPNEXT);
}

SQLITE_PRIVATE int sqlite3BtreeInsert(BtCursor *pCur, const BtreePayload *pX, int flags, int seekResult){
  Btree *p = pCur->pBtree;
  SablecatBtree *pOurs;
  const void *pData;
  u32 nData, nZero = 0;
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(Insert)(pCur, pX, flags, seekResult);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  pOurs = sablecatOf(p);
  if( flags & BTREE_PREFORMAT ){
    pData = pOurs->aRow;
    nData = pOurs->nRow;
  }else if( pCur->pKeyInfo ){
    pData = pX->pKey;
    nData = (u32)pX->nKey;
  }else{
    pData = pX->pData;
    nData = (u32)pX->nData;
    nZero = (u32)pX->nZero;
  }
  sablecatMoved(p, pCur->pgnoRoot, pCur);
  if( pCur->pKeyInfo ){
    rc = sablecat_sql_insert_key(pCur->pSablecat, pData, nData);
  }else{
    sablecatExpireBlobs(p, pCur->pgnoRoot, pX->nKey, 0);
    rc = sablecat_sql_insert(pCur->pSablecat, pX->nKey, pData, nData, nZero);
  }
  pCur->eState = CURSOR_REQUIRESEEK;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *pCur, u8 flags){
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(Delete)(pCur, flags);
  rc = sablecatRestore(pCur);
  if( rc!=SQLITE_OK || pCur->eState==CURSOR_SKIPNEXT ) return rc;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_CORRUPT_BKPT;
  sablecatMoved(pCur->pBtree, pCur->pgnoRoot, pCur);
  if( pCur->pKeyInfo==0 ) sablecatExpireBlobs(pCur->pBtree, pCur->pgnoRoot, pCur->info.nKey, 0);
  rc = sablecat_sql_delete(pCur->pSablecat);
  pCur->eState = CURSOR_SKIPNEXT;
  return rc;
}

/* Leaves the row of one cursor for the next insert, flagged BTREE_PREFORMAT, by another. */
SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *pDest, BtCursor *pSrc, i64 iKey){
  SablecatBtree *pOurs;
  u32 nRow;
  u8 *aRow;
  int rc;
  if( pDest->pSablecat==0 && pSrc->pSablecat==0 ) return STOCK(TransferRow)(pDest, pSrc, iKey);
  nRow = sqlite3BtreePayloadSize(pSrc);
  aRow = sqlite3Malloc(nRow ? nRow : 1);
  if( aRow==0 ) return SQLITE_NOMEM_BKPT;
  rc = sqlite3BtreePayload(pSrc, 0, nRow, aRow);
  if( rc!=SQLITE_OK ){
    sqlite3_free(aRow);
    return rc;
  }
  if( pDest->pSablecat ){
    pOurs = sablecatOf(pDest->pBtree);
    sqlite3_free(pOurs->aRow);
    pOurs->aRow = aRow;
    pOurs->nRow = nRow;
  }else{
    BtreePayload x;
    memset(&x, 0, sizeof(x));
    if( pDest->pKeyInfo ){
      x.pKey = aRow;
      x.nKey = nRow;
    }else{
      x.nKey = iKey;
      x.pData = aRow;
      x.nData = (int)nRow;
    }
    rc = fillInCell(pDest->pPage, pDest->pBt->pTmpSpace, &x, &pDest->pBt->nPreformatSize);
    sqlite3_free(aRow);
  }
  return rc;
}

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
  char *zFound = 0;
  int rc = SQLITE_OK, i;
  if( p->pSablecat==0 ) return STOCK(IntegrityCheck)(db, p, aRoot, aCnt, nRoot, mxErr, pnErr, pzOut);
  *pnErr = 0;
  *pzOut = 0;
  if( aRoot[0]!=0 ) rc = sablecat_sql_verify(sablecatDb(p), &zFound);
  if( zFound ){
    *pnErr = 1;
    *pzOut = sqlite3_mprintf("%s", zFound);
    sablecat_sql_free(zFound);
    if( *pzOut==0 ) rc = SQLITE_NOMEM_BKPT;
  }
  for(i=0; i<nRoot && rc==SQLITE_OK; i++){
    i64 nEntry = 0;
    if( aRoot[i] ) rc = sablecat_sql_check(sablecatDb(p), aRoot[i], &nEntry);
    sqlite3MemSetArrayInt64(aCnt, i, nEntry);
  }
  return rc;
}

/* ---- What is not of the b-tree, and has to know ---- */

SQLITE_PRIVATE SQLITE_NOINLINE int sqlite3RunVacuum(
  char **pzErrMsg,
  sqlite3 *db,
  int iDb,
  sqlite3_value *pOut
){
  Btree *p = db->aDb[iDb].pBt;
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

SQLITE_API sqlite3_backup *sqlite3_backup_init(
  sqlite3 *pDest,
  const char *zDest,
  sqlite3 *pSource,
  const char *zSource
){
  int iDest = pDest && zDest ? sqlite3FindDbName(pDest, zDest) : -1;
  int iSource = pSource && zSource ? sqlite3FindDbName(pSource, zSource) : -1;
  if( (iDest>=0 && pDest->aDb[iDest].pBt && pDest->aDb[iDest].pBt->pSablecat)
   || (iSource>=0 && pSource->aDb[iSource].pBt && pSource->aDb[iSource].pBt->pSablecat)
  ){
    sqlite3ErrorWithMsg(pDest, SQLITE_ERROR,
        "a database of sablecat is copied by VACUUM INTO or by the command sablecat backup");
    return 0;
  }
  return sablecatStock_sqlite3_backup_init(pDest, zDest, pSource, zSource);
}

SQLITE_PRIVATE const char *sqlite3ErrStr(int rc){
  const char *zMessage = rc>0xff ? sablecat_sql_message(rc) : 0;
  return zMessage ? zMessage : sablecatStock_sqlite3ErrStr(rc);
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
