/*
** Cursors, and the records at which they stand.
*/

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
      sqlite3_log(SQLITE_ERROR, "sablecat: an index by the collation %s, which a program defines; only"
                  " BINARY, NOCASE and RTRIM can be indexed", pColl->zName);
      return SQLITE_ERROR_MISSING_COLLSEQ;
    }
    aOrder[i].isDescending = pKeyInfo->aSortFlags && (pKeyInfo->aSortFlags[i] & KEYINFO_ORDER_DESC)!=0;
  }
  return SQLITE_OK;
}

/* The root of the table of sequences, which AUTOINCREMENT and programs change; 0 if there is none. */
static Pgno sablecatSequences(Btree *p){
  int i;
  for(i=0; i<p->db->nDb; i++){
    Db *pDb = &p->db->aDb[i];
    if( pDb->pBt==p ) return pDb->pSchema->pSeqTab ? pDb->pSchema->pSeqTab->tnum : 0;
  }
  return 0;
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
                             pKeyInfo ? pKeyInfo->enc : SQLITE_UTF8,
                             wrFlag && pKeyInfo==0 && sablecatSequences(p)==iTable, &pCur->pSablecat);
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

/* What AUTOINCREMENT opens the table of sequences with: the hint tells its cursors from others there. */
static void sablecatOpenSequences(Parse *pParse, int iDb, Table *pTab, int eOp){
  sqlite3OpenTable(pParse, 0, iDb, pTab, eOp);
  sqlite3VdbeChangeP5(pParse->pVdbe, OPFLAG_BULKCSR);
}

static int sablecatIsOfSequences(BtCursor *pCur){
  return pCur->pKeyInfo==0 && sqlite3BtreeCursorHasHint(pCur, BTREE_BULKLOAD);
}

static int sablecatEdge(BtCursor *pCur, int isLast, int *pRes){
  SablecatRow row;
  int rc;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  rc = sablecat_sql_edge(pCur->pSablecat, isLast, sablecatIsOfSequences(pCur), &row);
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

#if SQLITE_VERSION_NUMBER>3046001
SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  return pCur->pSablecat ? sablecatEdge(pCur, 0, pRes) : STOCK(IsEmpty)(pCur, pRes);
}
#endif

/* OP_NewRowid asks for the last row here, to give a new one the number after it. For AUTOINCREMENT there is a
** register with the greatest number that was given; behind it is that of the row which says so, or null. */
static int sablecatBeforeNew(BtCursor *pCur, Vdbe *pVdbe, Mem *aMem, int iReg, int *pRes){
  SablecatSequence sequence, *pSequence = 0;
  if( pCur->pSablecat==0 ) return STOCK(Last)(pCur, pRes);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  if( iReg ){
    VdbeFrame *pFrame = pVdbe->pFrame;
    Mem *pMem;
    while( pFrame && pFrame->pParent ) pFrame = pFrame->pParent;
    pMem = &(pFrame ? pFrame->aMem : aMem)[iReg];
    sequence.iLast = sqlite3VdbeIntValue(pMem);
    sequence.iRow = (pMem[1].flags & MEM_Int) ? pMem[1].u.i : 0;
    sequence.iRoot = sablecatSequences(pCur->pBtree);
    pSequence = &sequence;
  }
  *pRes = 0;
  pCur->eState = CURSOR_INVALID;
  return sablecat_sql_before_new(pCur->pSablecat, pSequence, &pCur->info.nKey);
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

/* A cursor goes to a record that was read ahead. */
static void sablecatStandAt(BtCursor *pCur, u32 iRead){
  SablecatAhead *pAhead = (SablecatAhead*)pCur->pSablecat;
  const SablecatRead *pRead = &pAhead->aRead[iRead];
  pAhead->iRead = iRead;
  pCur->info.nKey = pRead->iRowid;
  pCur->info.pPayload = (u8*)&pAhead->pByte[pRead->iData];
  pCur->info.nPayload = pRead->nData;
}

/* The same, by what was read ahead if there is any more of that. */
static int sablecatGoOn(BtCursor *pCur, int isForward){
  SablecatAhead *pAhead = (SablecatAhead*)pCur->pSablecat;
  if( pCur->eState!=CURSOR_VALID || pAhead->iRead+1>=pAhead->nRead || pAhead->isBack==isForward ){
    return sablecatStep(pCur, isForward);
  }
  sablecatStandAt(pCur, pAhead->iRead+1);
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  return pCur->pSablecat ? sablecatGoOn(pCur, 1) : STOCK(Next)(pCur, flags);
}

SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  return pCur->pSablecat ? sablecatGoOn(pCur, 0) : STOCK(Previous)(pCur, flags);
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

/* Goes on to a row that was read ahead, if it was: in a join by what both tables are ordered by. */
static int sablecatSkip(BtCursor *pCur, i64 iRowid){
  SablecatAhead *pAhead = (SablecatAhead*)pCur->pSablecat;
  u32 iFrom = pAhead->iRead+1;
  u32 iTo = pAhead->nRead;
  if( pAhead->isBack || iFrom>=iTo || iRowid<=pCur->info.nKey ) return 0;
  if( pAhead->aRead[iTo-1].iRowid<iRowid ) return 0;
  while( iTo-iFrom>1 && pAhead->aRead[iFrom].iRowid<iRowid ){
    u32 iBetween = iFrom + (iTo-iFrom)/2;
    if( pAhead->aRead[iBetween].iRowid<=iRowid ) iFrom = iBetween;
    else iTo = iBetween;
  }
  if( pAhead->aRead[iFrom].iRowid!=iRowid ) return 0;
  sablecatStandAt(pCur, iFrom);
  return 1;
}

SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int biasRight, int *pRes){
  SablecatRow row;
  int rc;
  if( pCur->pSablecat==0 ) return STOCK(TableMoveto)(pCur, intKey, biasRight, pRes);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  if( pCur->eState==CURSOR_VALID && (pCur->info.nKey==intKey || sablecatSkip(pCur, intKey)) ){
    *pRes = 0;
    return SQLITE_OK;
  }
  rc = sablecat_sql_seek_rowid(pCur->pSablecat, intKey, &row);
  rc = sablecatStand(pCur, rc, &row, CURSOR_SKIPNEXT);
  *pRes = pCur->eState==CURSOR_VALID ? 0 : -1;
  return rc;
}

static void sablecatValue(Mem *pMem, SablecatValue *pValue){
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
}

SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pKey, int *pRes){
  SablecatValue aFew[8], *aValue = aFew;
  SablecatRow row;
  int nValue, isWhole, eWhere, rc, i;
  if( pCur->pSablecat==0 ) return STOCK(IndexMoveto)(pCur, pKey, pRes);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;

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

SQLITE_PRIVATE void sqlite3BtreeIncrblobCursor(BtCursor *pCur){
  if( pCur->pSablecat ) sablecat_sql_of_blob(pCur->pSablecat);
  STOCK(IncrblobCursor)(pCur);
}

/* ---- Records ---- */

SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  return pCur->pSablecat ? pCur->info.nKey : STOCK(IntegerKey)(pCur);
}

#if defined(SQLITE_ENABLE_OFFSET_SQL_FUNC) || SQLITE_VERSION_NUMBER>=3046001
SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  return pCur->pSablecat ? 0 : STOCK(Offset)(pCur);
}
#endif

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
  rc = sablecatMoved(pCur->pBtree, pCur->pgnoRoot, pCur);
  /* A statement has opened it, and is over. */
  if( rc==SQLITE_OK ){
    rc = sablecat_sql_begin_statement(sablecatDb(pCur->pBtree), pCur->pBtree->db->nSavepoint, 0);
  }
  if( rc==SQLITE_OK ) rc = sablecat_sql_insert(pCur->pSablecat, pCur->info.nKey, aData, nData, 0);
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
  rc = sablecatMoved(p, pCur->pgnoRoot, pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo ){
    rc = sablecat_sql_insert_key(pCur->pSablecat, pData, nData);
  }else{
    sablecatExpireBlobs(p, pCur->pgnoRoot, pX->nKey, 0);
    if( sablecatIsOfSequences(pCur) && nZero==0 ){
      rc = sablecat_sql_insert_sequence(pCur->pSablecat, pX->nKey, pData, nData);
    }else{
      rc = sablecat_sql_insert(pCur->pSablecat, pX->nKey, pData, nData, nZero);
    }
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
  rc = sablecatMoved(pCur->pBtree, pCur->pgnoRoot, pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo==0 ) sablecatExpireBlobs(pCur->pBtree, pCur->pgnoRoot, pCur->info.nKey, 0);
  rc = sablecat_sql_delete(pCur->pSablecat);
  pCur->eState = CURSOR_SKIPNEXT;
  return rc;
}

/* A record as what is inserted by a cursor. */
static void sablecatPayload(BtreePayload *pX, BtCursor *pCur, i64 iRowid, const u8 *aData, u32 nData){
  memset(pX, 0, sizeof(*pX));
  if( pCur->pKeyInfo ){
    pX->pKey = aData;
    pX->nKey = nData;
  }else{
    pX->nKey = iRowid;
    pX->pData = aData;
    pX->nData = (int)nData;
  }
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
    sablecatPayload(&x, pDest, iKey, aRow, nRow);
    rc = fillInCell(pDest->pPage, pDest->pBt->pTmpSpace, &x, &pDest->pBt->nPreformatSize);
    sqlite3_free(aRow);
  }
  return rc;
}
