/*
** Copies of databases, of which one side or both is sablecat's: sqlite3_backup_*, sqlite3_serialize.
**
** Records are the same on both sides, so trees are copied record by record, in the order that they have. The
** source is seen in one state, and all of it is copied in one step, whatever number of pages is asked for.
**
** A destination of sablecat's is emptied and filled in one transaction that writes alone. One of SQLite's is
** given a copy of a database of SQLite's own, temporary and without a name, that is filled first: so pages,
** locks, steps and what a destination may be are SQLite's affair.
*/

/* What a backup has beside what SQLite's have. */
typedef struct SablecatBackup {
  sqlite3 *pBetween;         /* The connection of the database in between, if there is one */
  sqlite3_backup *pStock;    /* The backup from there */
  u8 isFilled;               /* It has been filled */
  const char *zDest;         /* What the destination is called */
} SablecatBackup;

/* ---- The schema ---- */

/* How often a source is looked at whose schema others change meanwhile. */
#define SABLECAT_LOOKS 8

/* Begins to read a database, unless its connection does already, whose schema the connection has as the
** transaction sees it. Statements that read a schema end the transaction that they are in, if they are alone
** in it. */
static int sablecatBeginRead(sqlite3 *db, Btree *p, int *pisOwn, Schema **ppSchema){
  int rc = SQLITE_OK, iDb, nLook;
  for(iDb=0; iDb<db->nDb && db->aDb[iDb].pBt!=p; iDb++){}
  if( iDb==db->nDb ) return SQLITE_ERROR;
  for(nLook=0; nLook<SABLECAT_LOOKS; nLook++){
    char *zError = 0;
    u32 iCookie = 0;
    *pisOwn = sqlite3BtreeTxnState(p)==SQLITE_TXN_NONE;
    if( *pisOwn ) rc = sqlite3BtreeBeginTrans(p, 0, 0);
    if( rc!=SQLITE_OK ) return rc;
    sqlite3BtreeGetMeta(p, BTREE_SCHEMA_VERSION, &iCookie);
    *ppSchema = db->aDb[iDb].pSchema;
    if( DbHasProperty(db, iDb, DB_SchemaLoaded) ){
      if( (u32)(*ppSchema)->schema_cookie==iCookie ) return SQLITE_OK;
      sqlite3ResetOneSchema(db, iDb);
    }
    if( *pisOwn ) sqlite3BtreeCommit(p);
    rc = sqlite3Init(db, &zError);
    sqlite3DbFree(db, zError);
    if( rc!=SQLITE_OK ) return rc;
  }
  return SQLITE_BUSY;
}

/* How the keys of a tree are ordered; null for a table with row ids. */
static int sablecatKeyInfo(sqlite3 *db, Schema *pSchema, Pgno iRoot, KeyInfo **ppKeyInfo){
  HashElem *pElem;
  *ppKeyInfo = 0;
  for(pElem=sqliteHashFirst(&pSchema->tblHash); pElem; pElem=sqliteHashNext(pElem)){
    Table *pTab = (Table*)sqliteHashData(pElem);
    Index *pIdx;
    for(pIdx=pTab->pIndex; pIdx; pIdx=pIdx->pNext){
      if( pIdx->tnum==iRoot ){
        Parse sParse;
        sqlite3ParseObjectInit(&sParse, db);
        *ppKeyInfo = sqlite3KeyInfoOfIndex(&sParse, pIdx);
        sqlite3DbFree(db, sParse.zErrMsg);
        sqlite3ParseObjectReset(&sParse);
        if( *ppKeyInfo ) return SQLITE_OK;
        return db->mallocFailed ? SQLITE_NOMEM_BKPT : SQLITE_ERROR_MISSING_COLLSEQ;
      }
    }
    if( pTab->tnum==iRoot ) return SQLITE_OK;
  }
  return SQLITE_CORRUPT_BKPT;
}

/* A record of the schema's table: which tree it is of, and where it says so. */
typedef struct SablecatSchemaRow {
  Pgno iRoot;                /* 0: of none */
  u32 iType;                 /* Where the type of that number stands */
  u32 iNumber, nNumber;      /* Where the number does */
} SablecatSchemaRow;

/* The record has some zeros behind it. */
static int sablecatSchemaRow(const u8 *a, u32 n, SablecatSchemaRow *pEntry){
  u32 nHeader, eType, at, i;
  i64 iNumber = 0;
  memset(pEntry, 0, sizeof(*pEntry));
  at = getVarint32(a, nHeader);
  if( nHeader>n ) return SQLITE_CORRUPT_BKPT;
  pEntry->iNumber = nHeader;
  for(i=0; i<=3 && at<nHeader; i++){
    pEntry->iNumber += pEntry->nNumber;
    pEntry->iType = at;
    at += getVarint32(&a[at], eType);
    pEntry->nNumber = sqlite3VdbeSerialTypeLen(eType);
    if( pEntry->nNumber>n || pEntry->iNumber>n-pEntry->nNumber ) return SQLITE_CORRUPT_BKPT;
  }
  if( i<=3 || eType<1 || eType>9 || eType==7 ) return SQLITE_OK;
  for(i=0; i<pEntry->nNumber; i++) iNumber = (iNumber<<8) | a[pEntry->iNumber+i];
  if( eType==9 ) iNumber = 1;
  if( iNumber<0 || iNumber>0x7fffffff ) return SQLITE_CORRUPT_BKPT;
  pEntry->iRoot = (Pgno)iNumber;
  return SQLITE_OK;
}

/* ---- Copying ---- */

/* The record at which a cursor stands, with some zeros behind it, in memory that is used for each. */
static int sablecatRecord(BtCursor *pCur, u8 **paData, u32 *pnData){
  u32 nData = sqlite3BtreePayloadSize(pCur);
  u8 *aData = sqlite3Realloc(*paData, (u64)nData+16);
  if( aData==0 ) return SQLITE_NOMEM_BKPT;
  memset(&aData[nData], 0, 16);
  *paData = aData;
  *pnData = nData;
  return sqlite3BtreePayload(pCur, 0, nData, aData);
}

static int sablecatAdd(BtCursor *pCur, i64 iRowid, const u8 *aData, u32 nData){
  BtreePayload x;
  sablecatPayload(&x, pCur, iRowid, aData, nData);
  return sqlite3BtreeInsert(pCur, &x, BTREE_APPEND, 0);
}

static int sablecatCopyTree(Btree *pFrom, Pgno iFrom, Btree *pTo, Pgno iTo, KeyInfo *pKeyInfo){
  BtCursor from, to;
  u8 *aData = 0;
  u32 nData = 0;
  int rc, isEnd = 0;
  memset(&from, 0, sizeof(from));
  memset(&to, 0, sizeof(to));
  rc = sqlite3BtreeCursor(pFrom, iFrom, 0, pKeyInfo, &from);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCursor(pTo, iTo, BTREE_WRCSR, pKeyInfo, &to);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(&from, &isEnd);
  while( rc==SQLITE_OK && !isEnd ){
    rc = sablecatRecord(&from, &aData, &nData);
    if( rc==SQLITE_OK ) rc = sablecatAdd(&to, pKeyInfo ? 0 : sqlite3BtreeIntegerKey(&from), aData, nData);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(&from, 0);
  }
  sqlite3BtreeCloseCursor(&from);
  sqlite3BtreeCloseCursor(&to);
  sqlite3_free(aData);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* Copies what a record of the schema's table is of, and the record. */
static int sablecatCopyEntry(
  sqlite3 *db,
  Schema *pSchema,
  Btree *pFrom,
  BtCursor *pTo,
  i64 iRowid,
  u8 *aData,
  u32 nData
){
  SablecatSchemaRow entry;
  KeyInfo *pKeyInfo = 0;
  Pgno iNew = 0;
  u8 *aNew;
  u32 nRest;
  int rc = sablecatSchemaRow(aData, nData, &entry);
  if( rc!=SQLITE_OK ) return rc;
  if( entry.iRoot==0 ) return sablecatAdd(pTo, iRowid, aData, nData);
  rc = sablecatKeyInfo(db, pSchema, entry.iRoot, &pKeyInfo);
  if( rc!=SQLITE_OK ) return rc;
  rc = sqlite3BtreeCreateTable(pTo->pBtree, &iNew, pKeyInfo ? BTREE_BLOBKEY : BTREE_INTKEY);
  if( rc==SQLITE_OK ) rc = sablecatCopyTree(pFrom, entry.iRoot, pTo->pBtree, iNew, pKeyInfo);
  sqlite3KeyInfoUnref(pKeyInfo);
  if( rc!=SQLITE_OK ) return rc;

  /* The same record with another number of four bytes, whose type has one as all of numbers have. */
  nRest = nData-entry.iNumber-entry.nNumber;
  aNew = sqlite3Malloc((u64)nData+4);
  if( aNew==0 ) return SQLITE_NOMEM_BKPT;
  memcpy(aNew, aData, entry.iNumber);
  aNew[entry.iType] = 4;
  sqlite3Put4byte(&aNew[entry.iNumber], iNew);
  memcpy(&aNew[entry.iNumber+4], &aData[entry.iNumber+entry.nNumber], nRest);
  rc = sablecatAdd(pTo, iRowid, aNew, entry.iNumber+4+nRest);
  sqlite3_free(aNew);
  return rc;
}

/* Copies all there is into a database without tables. Of both there is a transaction. */
static int sablecatCopyAll(sqlite3 *db, Schema *pSchema, Btree *pFrom, Btree *pTo){
  static const u8 aNumber[] = {
    BTREE_FILE_FORMAT, BTREE_DEFAULT_CACHE_SIZE, BTREE_TEXT_ENCODING, BTREE_USER_VERSION, BTREE_APPLICATION_ID
  };
  BtCursor from, to;
  u8 *aData = 0;
  u32 nData = 0;
  int rc = SQLITE_OK, isEnd = 0, i;
  for(i=0; i<ArraySize(aNumber) && rc==SQLITE_OK; i++){
    u32 iNumber = 0;
    sqlite3BtreeGetMeta(pFrom, aNumber[i], &iNumber);
    rc = sqlite3BtreeUpdateMeta(pTo, aNumber[i], iNumber);
  }
  if( rc!=SQLITE_OK ) return rc;
  memset(&from, 0, sizeof(from));
  memset(&to, 0, sizeof(to));
  rc = sqlite3BtreeCursor(pFrom, SCHEMA_ROOT, 0, 0, &from);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCursor(pTo, SCHEMA_ROOT, BTREE_WRCSR, 0, &to);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(&from, &isEnd);
  while( rc==SQLITE_OK && !isEnd ){
    rc = sablecatRecord(&from, &aData, &nData);
    if( rc==SQLITE_OK ){
      rc = sablecatCopyEntry(db, pSchema, pFrom, &to, sqlite3BtreeIntegerKey(&from), aData, nData);
    }
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(&from, 0);
  }
  sqlite3BtreeCloseCursor(&from);
  sqlite3BtreeCloseCursor(&to);
  sqlite3_free(aData);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* Removes all tables of a database of sablecat's. */
static int sablecatEmpty(Btree *p){
  BtCursor cur;
  SablecatSchemaRow entry;
  u8 *aData = 0;
  u32 nData = 0;
  int rc, isEnd = 0, iMoved;
  memset(&cur, 0, sizeof(cur));
  rc = sqlite3BtreeCursor(p, SCHEMA_ROOT, 0, 0, &cur);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(&cur, &isEnd);
  while( rc==SQLITE_OK && !isEnd ){
    rc = sablecatRecord(&cur, &aData, &nData);
    if( rc==SQLITE_OK ) rc = sablecatSchemaRow(aData, nData, &entry);
    if( rc==SQLITE_OK && entry.iRoot>SCHEMA_ROOT ) rc = sqlite3BtreeDropTable(p, (int)entry.iRoot, &iMoved);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(&cur, 0);
  }
  sqlite3BtreeCloseCursor(&cur);
  sqlite3_free(aData);
  return rc==SQLITE_OK || rc==SQLITE_DONE ? sqlite3BtreeClearTable(p, SCHEMA_ROOT, 0) : rc;
}

/* ---- Steps ---- */

/* Copies the source, as it is in the transaction that it is in or in one of its own. */
static int sablecatCopySource(sqlite3_backup *p, Btree *pTo){
  Schema *pSchema = 0;
  int isOwn = 0;
  int rc = sablecatBeginRead(p->pSrcDb, p->pSrc, &isOwn, &pSchema);
  if( rc!=SQLITE_OK ) return rc;
  rc = sablecatCopyAll(p->pSrcDb, pSchema, p->pSrc, pTo);
  p->nPagecount = sqlite3BtreeLastPage(p->pSrc);
  p->nRemaining = rc==SQLITE_OK ? 0 : p->nPagecount;
  if( isOwn ) sqlite3BtreeCommit(p->pSrc);
  return rc;
}

/* The destination, unless it was detached. */
static Btree *sablecatDestination(sqlite3_backup *p){
  return findBtree(p->pDestDb, p->pDestDb, ((SablecatBackup*)p->pSablecat)->zDest);
}

/* Replaces a database of sablecat's, in one transaction. */
static int sablecatReplace(sqlite3_backup *p){
  Btree *pDest;
  u32 iSchema = 0;
  int rc;
  sqlite3_mutex_enter(p->pDestDb->mutex);
  pDest = sablecatDestination(p);
  if( pDest==0 || pDest->pSablecat==0 ){
    rc = SQLITE_ERROR;
  }else if( sqlite3BtreeTxnState(pDest)!=SQLITE_TXN_NONE ){
    rc = SQLITE_LOCKED;
  }else{
    rc = sqlite3BtreeBeginTrans(pDest, 2, (int*)&iSchema);
    if( rc==SQLITE_OK ) rc = sablecatEmpty(pDest);
    if( rc==SQLITE_OK ) rc = sablecatCopySource(p, pDest);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(pDest, BTREE_SCHEMA_VERSION, iSchema+1);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(pDest);
    if( rc==SQLITE_OK ){
      sqlite3ResetAllSchemasOfConnection(p->pDestDb);
      rc = SQLITE_DONE;
    }else{
      sqlite3BtreeRollback(pDest, SQLITE_OK, 0);
    }
  }
  sqlite3_mutex_leave(p->pDestDb->mutex);
  return rc;
}

/* The size of the destination's pages, which those of its copy are to have. */
static int sablecatPageSize(sqlite3_backup *p, int *pnPage){
  Btree *pDest;
  int rc = SQLITE_OK;
  sqlite3_mutex_enter(p->pDestDb->mutex);
  pDest = sablecatDestination(p);
  if( pDest==0 ){
    rc = SQLITE_ERROR;
  }else if( sqlite3BtreeTxnState(pDest)==SQLITE_TXN_NONE ){
    /* It is known once the file was looked at. */
    rc = sqlite3BtreeBeginTrans(pDest, 0, 0);
    if( rc==SQLITE_OK ) sqlite3BtreeCommit(pDest);
  }
  if( rc==SQLITE_OK ) *pnPage = sqlite3BtreeGetPageSize(pDest);
  sqlite3_mutex_leave(p->pDestDb->mutex);
  return rc;
}

/* Fills the database in between, with pages of that size; 0: of the usual one. */
static int sablecatFill(sqlite3_backup *p, sqlite3 *pBetween, int nPage){
  Btree *pTo = pBetween->aDb[0].pBt;
  int rc;
  sqlite3_mutex_enter(pBetween->mutex);
  rc = sqlite3BtreeSetPageSize(pTo, nPage, 0, 0);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeBeginTrans(pTo, 1, 0);
  if( rc==SQLITE_OK ) rc = sablecatCopySource(p, pTo);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(pTo);
  if( rc!=SQLITE_OK ) sqlite3BtreeRollback(pTo, SQLITE_OK, 0);
  sqlite3_mutex_leave(pBetween->mutex);
  return rc;
}

/* ---- SQLite's interface ---- */

/* A database, if it is sablecat's. */
static Btree *sablecatSide(sqlite3 *db, const char *zDb){
  int iDb = sqlite3FindDbName(db, zDb);
  Btree *p = iDb>=0 ? db->aDb[iDb].pBt : 0;
  return p && p->pSablecat ? p : 0;
}

static sqlite3_backup *sablecatBackup(sqlite3 *pDest, const char *zDest, sqlite3 *pSource, Btree *pFrom){
  Btree *pTo = sablecatSide(pDest, zDest);
  SablecatBackup *pOurs;
  sqlite3_backup *p;
  int nDest = sqlite3Strlen30(zDest), isSame = 0;
  if( pTo ){
    if( sqlite3BtreeTxnState(pTo)!=SQLITE_TXN_NONE ){
      sqlite3ErrorWithMsg(pDest, SQLITE_ERROR, "destination database is in use");
      return 0;
    }
    if( pFrom->pSablecat ) sablecat_sql_is_same(sablecatDb(pTo), sablecatDb(pFrom), &isSame);
    if( isSame ){
      sqlite3ErrorWithMsg(pDest, SQLITE_ERROR, "source and destination must be distinct");
      return 0;
    }
  }
  p = sqlite3MallocZero(sizeof(*p)+sizeof(*pOurs)+nDest+1);
  if( p==0 ){
    sqlite3Error(pDest, SQLITE_NOMEM_BKPT);
    return 0;
  }
  pOurs = (SablecatBackup*)&p[1];
  p->pSablecat = pOurs;
  p->pDestDb = pDest;
  memcpy(&pOurs[1], zDest, nDest);
  pOurs->zDest = (const char*)&pOurs[1];
  p->pSrcDb = pSource;
  p->pSrc = pFrom;
  if( pTo==0 ){
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2("", &pOurs->pBetween, flags, 0);
    if( rc==SQLITE_OK ){
      pOurs->pStock = sablecatStock_sqlite3_backup_init(pDest, zDest, pOurs->pBetween, "main");
    }else{
      sqlite3Error(pDest, rc);
    }
    if( pOurs->pStock==0 ){
      sqlite3_close(pOurs->pBetween);
      sqlite3_free(p);
      return 0;
    }
  }
  pFrom->nBackup++;
  return p;
}

SQLITE_API sqlite3_backup *sqlite3_backup_init(
  sqlite3 *pDest,
  const char *zDest,
  sqlite3 *pSource,
  const char *zSource
){
  sqlite3_backup *p;
  Btree *pFrom;
  /* What is SQLite's to refuse. */
  if( pDest==pSource || zDest==0 || zSource==0
   || !sqlite3SafetyCheckOk(pSource) || !sqlite3SafetyCheckOk(pDest)
  ){
    return sablecatStock_sqlite3_backup_init(pDest, zDest, pSource, zSource);
  }
  sqlite3_mutex_enter(pSource->mutex);
  sqlite3_mutex_enter(pDest->mutex);
  if( sablecatSide(pDest, zDest)==0 && sablecatSide(pSource, zSource)==0 ){
    p = sablecatStock_sqlite3_backup_init(pDest, zDest, pSource, zSource);
  }else{
    pFrom = findBtree(pDest, pSource, zSource);
    p = pFrom ? sablecatBackup(pDest, zDest, pSource, pFrom) : 0;
  }
  sqlite3_mutex_leave(pDest->mutex);
  sqlite3_mutex_leave(pSource->mutex);
  return p;
}

SQLITE_API int sqlite3_backup_step(sqlite3_backup *p, int nPage){
  SablecatBackup *pOurs;
  int rc;
  if( p==0 || p->pSablecat==0 ) return sablecatStock_sqlite3_backup_step(p, nPage);
  pOurs = (SablecatBackup*)p->pSablecat;
  sqlite3_mutex_enter(p->pSrcDb->mutex);
  sqlite3BtreeEnterAll(p->pSrcDb);
  rc = p->rc;
  if( rc==SQLITE_OK || rc==SQLITE_BUSY || rc==SQLITE_LOCKED ){
    rc = SQLITE_OK;
    if( !pOurs->isFilled && (p->pSrc->inTrans==TRANS_WRITE || p->pSrc->pBt->inTransaction==TRANS_WRITE) ){
      rc = SQLITE_BUSY;
    }else if( pOurs->pStock==0 ){
      rc = sablecatReplace(p);
    }else{
      if( !pOurs->isFilled ){
        int nPage = 0;
        rc = sablecatPageSize(p, &nPage);
        if( rc==SQLITE_OK ) rc = sablecatFill(p, pOurs->pBetween, nPage);
      }
      if( rc==SQLITE_OK ){
        pOurs->isFilled = 1;
        rc = sablecatStock_sqlite3_backup_step(pOurs->pStock, nPage);
        p->nRemaining = pOurs->pStock->nRemaining;
        p->nPagecount = pOurs->pStock->nPagecount;
      }
    }
    /* What may be tried again. */
    if( (rc&0xff)==SQLITE_BUSY ) rc = SQLITE_BUSY;
    p->rc = rc;
  }
  sqlite3BtreeLeaveAll(p->pSrcDb);
  sqlite3_mutex_leave(p->pSrcDb->mutex);
  return rc;
}

SQLITE_API int sqlite3_backup_finish(sqlite3_backup *p){
  SablecatBackup *pOurs;
  sqlite3 *pSource, *pDest;
  int rc;
  if( p==0 || p->pSablecat==0 ) return sablecatStock_sqlite3_backup_finish(p);
  pOurs = (SablecatBackup*)p->pSablecat;
  pSource = p->pSrcDb;
  pDest = p->pDestDb;
  rc = p->rc==SQLITE_DONE ? SQLITE_OK : p->rc;
  sqlite3_mutex_enter(pSource->mutex);
  sqlite3_mutex_enter(pDest->mutex);
  p->pSrc->nBackup--;
  if( pOurs->pStock ){
    sablecatStock_sqlite3_backup_finish(pOurs->pStock);
    sqlite3_close(pOurs->pBetween);
  }
  sqlite3Error(pDest, rc);
  sqlite3_free(p);
  sqlite3LeaveMutexAndCloseZombie(pDest);
  sqlite3LeaveMutexAndCloseZombie(pSource);
  return rc;
}

/* ---- Serialization ---- */

/* The bytes of a file of SQLite's that has what the database has. How many these are is not known before they
** are made, so with SQLITE_SERIALIZE_NOCOPY the size is -1. */
SQLITE_API unsigned char *sqlite3_serialize(
  sqlite3 *db,
  const char *zSchema,
  sqlite3_int64 *piSize,
  unsigned int mFlags
){
  sqlite3 *pImage = 0;
  unsigned char *aOut = 0;
  Btree *pFrom;
  sqlite3_mutex_enter(db->mutex);
  pFrom = sablecatSide(db, zSchema ? zSchema : db->aDb[0].zDbSName);
  if( pFrom==0 ){
    aOut = sablecatStock_sqlite3_serialize(db, zSchema, piSize, mFlags);
  }else{
    if( piSize ) *piSize = -1;
    if( (mFlags & SQLITE_SERIALIZE_NOCOPY)==0 ){
      int rc = sqlite3_open_v2("", &pImage, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 0);
      if( rc==SQLITE_OK ){
        sqlite3_backup source;
        memset(&source, 0, sizeof(source));
        source.pSrcDb = db;
        source.pSrc = pFrom;
        sqlite3BtreeEnterAll(db);
        rc = sablecatFill(&source, pImage, 0);
        sqlite3BtreeLeaveAll(db);
      }
      if( rc==SQLITE_OK ) aOut = sablecatStock_sqlite3_serialize(pImage, "main", piSize, 0);
      sqlite3_close(pImage);
      rc = sqlite3ApiExit(db, rc);
      if( rc!=SQLITE_OK ) sqlite3Error(db, rc);
    }
  }
  sqlite3_mutex_leave(db->mutex);
  return aOut;
}
