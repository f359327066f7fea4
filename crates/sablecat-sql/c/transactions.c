/*
** Transactions, trees and numbers; what they do to cursors.
*/

/* ---- Cursors as the transaction goes on ---- */

/* Something is to be written: a record that a cursor stands at may be another one, or gone. An error if it is
** not to be, because a statement around this one has still to do with that record. */
static int sablecatMoved(Btree *p, Pgno iRoot, BtCursor *pExcept){
  BtCursor *pCur;
  for(pCur=p->pBt->pCursor; pCur; pCur=pCur->pNext){
    if( pCur==pExcept || (iRoot!=0 && pCur->pgnoRoot!=iRoot) ) continue;
    if( pCur->eState!=CURSOR_VALID && pCur->eState!=CURSOR_SKIPNEXT ) continue;
    if( pCur->curFlags & BTCF_Pinned ) return SQLITE_CONSTRAINT_PINNED;
    if( pCur->eState==CURSOR_VALID ) pCur->eState = CURSOR_REQUIRESEEK;
  }
  return SQLITE_OK;
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
    if( writeOnly && (pCur->curFlags & (BTCF_WriteFlag|BTCF_Pinned))==BTCF_Pinned ){
      (void)sqlite3BtreeTripAllCursors(p, SQLITE_CONSTRAINT_PINNED, 0);
      return SQLITE_CONSTRAINT_PINNED;
    }
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

/* Whether a statement that begins to write has to do with no other database, and so is undone where it is in
** this one. */
static int sablecatIsWithin(Btree *p){
  sqlite3 *db = p->db;
  Vdbe *v;
  int i;
  if( db->nDb==2 && db->aDb[1].pBt==0 ) return 1;
  for(v=db->pVdbe; v; v=v->pVNext){
    if( v->eVdbeState!=VDBE_RUN_STATE || v->readOnly ) continue;
    for(i=0; i<db->nDb; i++){
      if( db->aDb[i].pBt!=p && DbMaskTest(v->btreeMask, i) ) return 0;
    }
  }
  return 1;
}

SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wrflag, int *pSchemaVersion){
  int rc = SQLITE_OK, isExplicit = p->db->autoCommit==0, isSnapshot = 0;
  if( p->pSablecat==0 ) return STOCK(BeginTrans)(p, wrflag, pSchemaVersion);
  /* A statement that reads was there before the transaction, and goes on in the state of that. */
  if( p->inTrans==TRANS_READ && (wrflag || isExplicit) ){
    rc = sablecat_sql_is_snapshot(sablecatDb(p), &isSnapshot);
    if( rc==SQLITE_OK && isSnapshot ) rc = sablecatMoved(p, 0, 0);
    if( rc!=SQLITE_OK ) return rc;
  }
  if( p->inTrans==TRANS_NONE || (p->inTrans==TRANS_READ && (wrflag || isSnapshot)) ){
    int isAlone = wrflag && (wrflag>1 || (!isExplicit && sablecatIsBegin(p->db)));
    if( wrflag && (p->pBt->btsFlags & BTS_READ_ONLY)!=0 ) return SQLITE_READONLY;
    do{
      rc = sablecat_sql_begin(sablecatDb(p), wrflag, isAlone, isExplicit || isAlone,
                              p->db->isTransactionSavepoint);
    }while( rc==SQLITE_BUSY && p->inTrans==TRANS_NONE && sqlite3InvokeBusyHandler(&p->db->busyHandler) );
    if( rc!=SQLITE_OK ) return rc;
    p->inTrans = wrflag ? TRANS_WRITE : TRANS_READ;
    sablecatOf(p)->isCommitted = 0;
  }
  if( pSchemaVersion ) rc = sablecat_sql_meta(sablecatDb(p), BTREE_SCHEMA_VERSION, (u32*)pSchemaVersion);
  /* What runs within another statement, as those of FTS5 do, is a part of that. */
  if( rc==SQLITE_OK && wrflag ){
    rc = sablecat_sql_begin_statement(sablecatDb(p), p->db->nSavepoint,
                                      p->db->nVdbeExec==1 && p->db->nVTrans==0 && sablecatIsWithin(p));
  }
  return rc;
}

/* The transaction is over. Statements that still read go on, in the state that there is now. */
static int sablecatEnd(Btree *p){
  int rc = SQLITE_OK;
  if( p->inTrans>TRANS_NONE && p->db->nVdbeRead>1 ){
    if( p->inTrans==TRANS_WRITE ){
      sablecat_sql_end(sablecatDb(p));
      rc = sablecatMoved(p, 0, 0);
      if( rc==SQLITE_OK ) rc = sablecat_sql_begin(sablecatDb(p), 0, 0, p->db->autoCommit==0, 0);
      if( rc!=SQLITE_OK ) sqlite3BtreeTripAllCursors(p, rc, 0);
    }
    p->inTrans = TRANS_READ;
  }else{
    sablecat_sql_end(sablecatDb(p));
    p->inTrans = TRANS_NONE;
  }
  return rc;
}

/* As durable as PRAGMA synchronous says, unless SQLite was compiled to wait for no disk. */
static int sablecatSync(Btree *p){
#ifdef SQLITE_NO_SYNC
  (void)p;
  return PAGER_SYNCHRONOUS_OFF;
#else
  return sablecatOf(p)->eSync;
#endif
}

/* Why the transaction does not commit, if a statement has met a conflict in any database. */
static int sablecatIsLost(sqlite3 *db){
  int rc = SQLITE_OK, i;
  for(i=0; i<db->nDb && rc==SQLITE_OK; i++){
    Btree *p = db->aDb[i].pBt;
    if( p && p->pSablecat && p->inTrans==TRANS_WRITE ) rc = sablecat_sql_may_commit(sablecatDb(p));
  }
  return rc;
}

/* This is the commit: it may fail, which phase two may not. */
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  SablecatBtree *pOurs = sablecatOf(p);
  int rc = SQLITE_OK;
  if( pOurs==0 ) return STOCK(CommitPhaseOne)(p, zSuperJrnl);
  if( p->inTrans==TRANS_WRITE && !pOurs->isCommitted ){
    if( p->db->nDb>2 ) rc = sablecatIsLost(p->db);
    if( rc==SQLITE_OK ) rc = sablecat_sql_commit(pOurs->pDb, sablecatSync(p));
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
  int rc = SQLITE_OK, rcEnd;
  if( p->pSablecat==0 ) return STOCK(Rollback)(p, tripCode, writeOnly);
  if( tripCode==SQLITE_OK ){
    rc = tripCode = sablecatMoved(p, 0, 0);
    if( rc!=SQLITE_OK ) writeOnly = 0;
  }
  if( tripCode!=SQLITE_OK ){
    int rcTrip = sqlite3BtreeTripAllCursors(p, tripCode, writeOnly);
    if( rcTrip!=SQLITE_OK ) rc = rcTrip;
  }
  rcEnd = sablecatEnd(p);
  return rc==SQLITE_OK ? rcEnd : rc;
}

SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int iStatement){
  if( p->pSablecat==0 ) return STOCK(BeginStmt)(p, iStatement);
  return sablecat_sql_be_whole(sablecatDb(p), iStatement);
}

SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){
  if( p==0 || p->pSablecat==0 ) return STOCK(Savepoint)(p, op, iSavepoint);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( op==SAVEPOINT_ROLLBACK ){
    int rc = sablecatMoved(p, 0, 0);
    if( rc!=SQLITE_OK ) return rc;
  }
  return sablecat_sql_savepoint(sablecatDb(p), op==SAVEPOINT_ROLLBACK, iSavepoint);
}

/* ---- Trees and numbers ---- */

SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *piTable, int flags){
  if( p->pSablecat==0 ) return STOCK(CreateTable)(p, piTable, flags);
  return sablecat_sql_create(sablecatDb(p), piTable);
}

SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int iTable, int *piMoved){
  int rc;
  if( p->pSablecat==0 ) return STOCK(DropTable)(p, iTable, piMoved);
  *piMoved = 0;
  rc = sablecatMoved(p, (Pgno)iTable, 0);
  if( rc!=SQLITE_OK ) return rc;
  sablecatExpireBlobs(p, (Pgno)iTable, 0, 1);
  return sablecat_sql_drop(sablecatDb(p), (u32)iTable);
}

SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int iTable, i64 *pnChange){
  i64 nGone = 0;
  int rc;
  if( p->pSablecat==0 ) return STOCK(ClearTable)(p, iTable, pnChange);
  rc = sablecatMoved(p, (Pgno)iTable, 0);
  if( rc!=SQLITE_OK ) return rc;
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
