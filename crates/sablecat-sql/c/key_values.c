/*
** Databases of keys and values of the same environment, as virtual tables: the module "sablecat", which every
** connection has.
**
** A table is of the environment that its schema is in. What it reads and changes it does in the transaction of
** that environment's Btree, which SQLite begins, commits, and takes savepoints of, as it does for the tables
** there: so none of that is asked of the module.
*/

/* A table. Of its Btree nothing is used once that is closed, before which its statements are over. */
typedef struct SablecatTable {
  sqlite3_vtab base;
  sqlite3 *db;
  Btree *pBtree;
  char *zDatabase;           /* Whose records it has */
  char *zTable;
  int eShape;
  u8 aIsText[2];             /* Of key and value: text, not a blob */
} SablecatTable;

/* A statement's place in it. */
typedef struct SablecatWalk {
  sqlite3_vtab_cursor base;
  void *pEntries;            /* Rust's */
  SablecatEntry entry;
} SablecatWalk;

#define SABLECAT_KEY    0
#define SABLECAT_VALUE  1
#define SABLECAT_PLACE  2

/* How a statement reads a table: bits of idxNum, each of the first three with an argument, in this order */
#define SABLECAT_EQUAL     1
#define SABLECAT_FROM      2
#define SABLECAT_TO        4
#define SABLECAT_ABOVE     8   /* FROM without the key itself */
#define SABLECAT_BELOW    16   /* TO without it */
#define SABLECAT_BACK     32

static const char *const sablecatColumns[2] = { "key", "value" };

/* ---- Tables ---- */

/* Takes an argument "key=text" or the like. */
static int sablecatOption(SablecatTable *pTab, const char *zArg){
  int i;
  for(i=0; i<2; i++){
    int n = sqlite3Strlen30(sablecatColumns[i]);
    const char *z = zArg;
    while( sqlite3Isspace(*z) ) z++;
    if( sqlite3_strnicmp(z, sablecatColumns[i], n)!=0 ) continue;
    for(z+=n; sqlite3Isspace(*z); z++){}
    if( *z++!='=' ) continue;
    while( sqlite3Isspace(*z) ) z++;
    for(n=sqlite3Strlen30(z); n>0 && sqlite3Isspace(z[n-1]); n--){}
    if( n!=4 ) return SQLITE_ERROR;
    pTab->aIsText[i] = sqlite3_strnicmp(z, "text", 4)==0;
    return pTab->aIsText[i] || sqlite3_strnicmp(z, "blob", 4)==0 ? SQLITE_OK : SQLITE_ERROR;
  }
  return SQLITE_ERROR;
}

static int sablecatDisconnect(sqlite3_vtab *pVtab){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  sqlite3_free(pTab->zDatabase);
  sqlite3_free(pTab->zTable);
  sqlite3_free(pTab);
  return SQLITE_OK;
}

/* Reads the arguments of CREATE VIRTUAL TABLE: argv[1] is the schema, argv[2] the table. */
static int sablecatArguments(SablecatTable *pTab, int argc, const char *const*argv, char **pzErr){
  int iDb = sqlite3FindDbName(pTab->db, argv[1]);
  int i;
  pTab->pBtree = iDb>=0 ? pTab->db->aDb[iDb].pBt : 0;
  if( pTab->pBtree==0 || pTab->pBtree->pSablecat==0 ){
    *pzErr = sqlite3_mprintf("%s is no environment of sablecat: there are no databases of keys and values in it",
                             argv[1]);
    return SQLITE_ERROR;
  }
  if( argc<4 ){
    *pzErr = sqlite3_mprintf("the module sablecat wants the name of a database: sablecat('name')");
    return SQLITE_ERROR;
  }
  for(i=4; i<argc; i++){
    if( sablecatOption(pTab, argv[i])!=SQLITE_OK ){
      *pzErr = sqlite3_mprintf("the module sablecat has no argument %s; there are key=text, key=blob, value=text"
                               " and value=blob", argv[i]);
      return SQLITE_ERROR;
    }
  }
  pTab->zDatabase = sqlite3_mprintf("%s", argv[3]);
  pTab->zTable = sqlite3_mprintf("%s", argv[2]);
  if( pTab->zDatabase==0 || pTab->zTable==0 ) return SQLITE_NOMEM;
  sqlite3Dequote(pTab->zDatabase);
  return SQLITE_OK;
}

/* Tells SQLite of the columns. Where a key has several values, what makes a row one is which of them it is. */
static int sablecatDeclare(SablecatTable *pTab){
  const char *zKey = pTab->aIsText[SABLECAT_KEY] ? "TEXT" : "BLOB";
  const char *zValue = pTab->aIsText[SABLECAT_VALUE] ? "TEXT" : "BLOB";
  const char *zFormat = pTab->eShape==SABLECAT_VALUES
      ? "CREATE TABLE x(key %s NOT NULL, value %s NOT NULL, place BLOB HIDDEN PRIMARY KEY) WITHOUT ROWID"
      : "CREATE TABLE x(key %s PRIMARY KEY, value %s NOT NULL) WITHOUT ROWID";
  char *zSql = sqlite3_mprintf(zFormat, zKey, zValue);
  int rc = zSql ? sqlite3_declare_vtab(pTab->db, zSql) : SQLITE_NOMEM;
  sqlite3_free(zSql);
  if( rc==SQLITE_OK ) rc = sqlite3_vtab_config(pTab->db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  if( rc==SQLITE_OK ) rc = sqlite3_vtab_config(pTab->db, SQLITE_VTAB_INNOCUOUS);
  return rc;
}

static int sablecatMake(
  sqlite3 *db,
  int argc,
  const char *const*argv,
  sqlite3_vtab **ppVtab,
  char **pzErr,
  int isNew
){
  SablecatTable *pTab = sqlite3_malloc(sizeof(*pTab));
  int rc;
  if( pTab==0 ) return SQLITE_NOMEM;
  memset(pTab, 0, sizeof(*pTab));
  pTab->db = db;
  rc = sablecatArguments(pTab, argc, argv, pzErr);
  if( rc==SQLITE_OK ){
    rc = sablecat_sql_shape(sablecatDb(pTab->pBtree), pTab->zDatabase, &pTab->eShape);
    /* What is not there any more, or not of a kind that makes tables, is told of to who reads it: the table is
    ** to be dropped as others are. */
    if( !isNew && (rc & 0xff)==SQLITE_ERROR ) rc = SQLITE_OK;
    if( rc!=SQLITE_OK ) *pzErr = sqlite3_mprintf("%s", sqlite3ErrStr(rc));
  }
  if( rc==SQLITE_OK && isNew && pTab->eShape==SABLECAT_NONE ){
    *pzErr = sqlite3_mprintf("there is no database %Q in the environment", pTab->zDatabase);
    rc = SQLITE_ERROR;
  }
  if( rc==SQLITE_OK ) rc = sablecatDeclare(pTab);
  if( rc==SQLITE_OK ){
    *ppVtab = &pTab->base;
  }else{
    sablecatDisconnect(&pTab->base);
  }
  return rc;
}

static int sablecatCreate(
  sqlite3 *db,
  void *pAux,
  int argc,
  const char *const*argv,
  sqlite3_vtab **ppVtab,
  char **pzErr
){
  (void)pAux;
  return sablecatMake(db, argc, argv, ppVtab, pzErr, 1);
}

static int sablecatConnect(
  sqlite3 *db,
  void *pAux,
  int argc,
  const char *const*argv,
  sqlite3_vtab **ppVtab,
  char **pzErr
){
  (void)pAux;
  return sablecatMake(db, argc, argv, ppVtab, pzErr, 0);
}

static int sablecatRename(sqlite3_vtab *pVtab, const char *zName){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  char *zTable = sqlite3_mprintf("%s", zName);
  if( zTable==0 ) return SQLITE_NOMEM;
  sqlite3_free(pTab->zTable);
  pTab->zTable = zTable;
  return SQLITE_OK;
}

/* ---- How to read a table ---- */

/* Whether a condition on the key says something of its bytes: it compares keys as they are, by BINARY, in the
** order that their bytes have. */
static int sablecatIsOfBytes(SablecatTable *pTab, sqlite3_index_info *pInfo, int iCons){
  HiddenIndexInfo *pHidden = (HiddenIndexInfo*)&pInfo[1];
  WhereTerm *pTerm = termFromWhereClause(pHidden->pWC, pInfo->aConstraint[iCons].iTermOffset);
  int isText = pTab->aIsText[SABLECAT_KEY];
  /* What LIKE and GLOB want of text is not what they find in blobs. */
  if( pTerm && (pTerm->wtFlags & TERM_LIKEOPT)!=0 ) return 0;
  if( isText && ENC(pTab->db)!=SQLITE_UTF8 ) return 0;
  if( sqlite3_stricmp(sqlite3_vtab_collation(pInfo, iCons), sqlite3StrBINARY)!=0 ) return 0;
  return pTerm && sqlite3IndexAffinityOk(pTerm->pExpr, isText ? SQLITE_AFF_TEXT : SQLITE_AFF_BLOB);
}

/* Of the conditions that a statement can give, a value for the key is taken if there is one, else one bound
** from either side. SQLite looks at all of them once more. */
static int sablecatBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  int aCons[3] = { -1, -1, -1 };
  int aBit[3] = { SABLECAT_EQUAL, SABLECAT_FROM, SABLECAT_TO };
  int i, n, eHow = 0;
  i64 nEntry = 0;
  double rEntry;

  for(i=0; i<pInfo->nConstraint; i++){
    int eOp = pInfo->aConstraint[i].op, iWhich, eBit;
    if( !pInfo->aConstraint[i].usable || pInfo->aConstraint[i].iColumn!=SABLECAT_KEY ) continue;
    switch( eOp ){
      case SQLITE_INDEX_CONSTRAINT_EQ:  iWhich = 0;  eBit = 0;               break;
      case SQLITE_INDEX_CONSTRAINT_GE:  iWhich = 1;  eBit = 0;               break;
      case SQLITE_INDEX_CONSTRAINT_GT:  iWhich = 1;  eBit = SABLECAT_ABOVE;  break;
      case SQLITE_INDEX_CONSTRAINT_LE:  iWhich = 2;  eBit = 0;               break;
      case SQLITE_INDEX_CONSTRAINT_LT:  iWhich = 2;  eBit = SABLECAT_BELOW;  break;
      default: continue;
    }
    if( aCons[iWhich]>=0 || (iWhich>0 && pTab->eShape==SABLECAT_UNORDERED) ) continue;
    if( !sablecatIsOfBytes(pTab, pInfo, i) ) continue;
    aCons[iWhich] = i;
    eHow |= aBit[iWhich] | eBit;
  }
  if( eHow & SABLECAT_EQUAL ){
    eHow = SABLECAT_EQUAL;
    aCons[1] = aCons[2] = -1;
  }
  for(i=n=0; i<3; i++){
    if( aCons[i]>=0 ) pInfo->aConstraintUsage[aCons[i]].argvIndex = ++n;
  }

  if( pInfo->nOrderBy==1 && pInfo->aOrderBy[0].iColumn==SABLECAT_KEY && pTab->eShape!=SABLECAT_UNORDERED
   && (!pTab->aIsText[SABLECAT_KEY] || ENC(pTab->db)==SQLITE_UTF8)
   && (!pInfo->aOrderBy[0].desc || pTab->eShape==SABLECAT_ORDERED)
  ){
    pInfo->orderByConsumed = 1;
    if( pInfo->aOrderBy[0].desc ) eHow |= SABLECAT_BACK;
  }

  /* What goes wrong here does when the table is read, where there is somebody to be told. */
  if( sablecat_sql_records(sablecatDb(pTab->pBtree), pTab->zDatabase, &nEntry)!=SQLITE_OK ) nEntry = 0;
  rEntry = nEntry>0 ? (double)nEntry : 1.0;
  if( eHow & SABLECAT_EQUAL ){
    rEntry = pTab->eShape==SABLECAT_VALUES && rEntry>4.0 ? 4.0 : 1.0;
    if( pTab->eShape!=SABLECAT_VALUES ) pInfo->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  }else{
    if( eHow & SABLECAT_FROM ) rEntry /= 4.0;
    if( eHow & SABLECAT_TO ) rEntry /= 4.0;
    if( rEntry<1.0 ) rEntry = 1.0;
  }
  pInfo->estimatedRows = (i64)rEntry;
  pInfo->estimatedCost = rEntry*1.5 + 8.0;
  pInfo->idxNum = eHow;
  /* EXPLAIN QUERY PLAN shows it. */
  switch( eHow & ~SABLECAT_BACK ){
    case 0:               pInfo->idxStr = "";                   break;
    case SABLECAT_EQUAL:  pInfo->idxStr = "key=?";              break;
    case SABLECAT_FROM:   pInfo->idxStr = "key>=?";             break;
    case SABLECAT_TO:     pInfo->idxStr = "key<=?";             break;
    case SABLECAT_FROM|SABLECAT_ABOVE:  pInfo->idxStr = "key>?";  break;
    case SABLECAT_TO|SABLECAT_BELOW:    pInfo->idxStr = "key<?";  break;
    default:              pInfo->idxStr = "key between";        break;
  }
  return SQLITE_OK;
}

/* ---- Reading ---- */

static int sablecatWalkOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCursor){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  SablecatWalk *pWalk = sqlite3_malloc(sizeof(*pWalk));
  int rc;
  if( pWalk==0 ) return SQLITE_NOMEM;
  memset(pWalk, 0, sizeof(*pWalk));
  rc = sablecat_sql_entries(sablecatDb(pTab->pBtree), pTab->zDatabase, pTab->eShape, &pWalk->pEntries);
  if( rc==SQLITE_OK ){
    *ppCursor = &pWalk->base;
  }else{
    sqlite3_free(pWalk);
  }
  return rc;
}

static int sablecatWalkClose(sqlite3_vtab_cursor *pCursor){
  SablecatWalk *pWalk = (SablecatWalk*)pCursor;
  sablecat_sql_entries_close(pWalk->pEntries);
  sqlite3_free(pWalk);
  return SQLITE_OK;
}

/* The bytes of a value; an error if memory was short for them. */
static int sablecatBytesOf(sqlite3_value *pValue, int isText, SablecatBytes *pBytes){
  pBytes->pByte = isText ? (const void*)sqlite3_value_text(pValue) : sqlite3_value_blob(pValue);
  pBytes->nByte = (u32)sqlite3_value_bytes(pValue);
  pBytes->isThere = 1;
  return pBytes->pByte==0 && (isText || pBytes->nByte>0) ? SQLITE_NOMEM : SQLITE_OK;
}

/* A value as a bound from below, or from above. False if no key is beyond it, on the side that is wanted. That
** of another type bounds nothing, or leaves nothing: numbers are less than texts, texts less than blobs. */
static int sablecatBound(
  SablecatTable *pTab,
  sqlite3_value *pValue,
  int isLower,
  SablecatBytes *pBound,
  int *pRc
){
  int isText = pTab->aIsText[SABLECAT_KEY];
  int eType = sqlite3_value_type(pValue);
  if( eType==SQLITE_NULL ) return 0;
  if( isText && (eType==SQLITE_INTEGER || eType==SQLITE_FLOAT) ) eType = SQLITE_TEXT;
  if( eType==(isText ? SQLITE_TEXT : SQLITE_BLOB) ){
    *pRc = sablecatBytesOf(pValue, isText, pBound);
    return 1;
  }
  return isText ? !isLower : isLower;
}

static int sablecatFilter(
  sqlite3_vtab_cursor *pCursor,
  int eHow,
  const char *zHow,
  int argc,
  sqlite3_value **argv
){
  SablecatWalk *pWalk = (SablecatWalk*)pCursor;
  SablecatTable *pTab = (SablecatTable*)pCursor->pVtab;
  SablecatBytes lower = { 0, 0, 0, 0 }, upper = { 0, 0, 0, 0 };
  int rc = SQLITE_OK, iArg = 0, isAny = 1;
  (void)zHow;
  (void)argc;
  pWalk->entry.isThere = 0;
  if( eHow & (SABLECAT_EQUAL|SABLECAT_FROM) ){
    isAny = sablecatBound(pTab, argv[iArg++], 1, &lower, &rc);
    lower.isBeyond = (eHow & SABLECAT_ABOVE)!=0;
  }
  if( eHow & SABLECAT_EQUAL ){
    isAny = isAny && lower.isThere;
    upper = lower;
  }
  if( eHow & SABLECAT_TO ){
    isAny = sablecatBound(pTab, argv[iArg++], 0, &upper, &rc) && isAny;
    upper.isBeyond = (eHow & SABLECAT_BELOW)!=0;
  }
  if( rc!=SQLITE_OK || !isAny ) return rc;
  return sablecat_sql_entries_seek(pWalk->pEntries, &lower, &upper, (eHow & SABLECAT_BACK)!=0, &pWalk->entry);
}

static int sablecatWalkNext(sqlite3_vtab_cursor *pCursor){
  SablecatWalk *pWalk = (SablecatWalk*)pCursor;
  pWalk->entry.isThere = 0;
  return sablecat_sql_entries_step(pWalk->pEntries, &pWalk->entry);
}

static int sablecatWalkEof(sqlite3_vtab_cursor *pCursor){
  return !((SablecatWalk*)pCursor)->entry.isThere;
}

/* Bytes as a column's value. They are copied: what they are in is used again for the next row. */
static void sablecatResult(sqlite3_context *pContext, const void *pByte, u32 nByte, int isText){
  if( isText ){
    sqlite3_result_text64(pContext, pByte, nByte, SQLITE_TRANSIENT, SQLITE_UTF8);
  }else{
    sqlite3_result_blob64(pContext, nByte ? pByte : "", nByte, SQLITE_TRANSIENT);
  }
}

static int sablecatColumn(sqlite3_vtab_cursor *pCursor, sqlite3_context *pContext, int iColumn){
  SablecatTable *pTab = (SablecatTable*)pCursor->pVtab;
  SablecatEntry *p = &((SablecatWalk*)pCursor)->entry;
  if( iColumn==SABLECAT_KEY || iColumn==SABLECAT_VALUE ){
    const u8 *pByte = iColumn==SABLECAT_KEY ? p->pKey : p->pValue;
    u32 nByte = iColumn==SABLECAT_KEY ? p->nKey : p->nValue;
    int isText = pTab->aIsText[iColumn], isHeld = 1;
    /* SQLite has its text in the encoding of the database: what comes back from there is to be what it was. */
    if( isText && ENC(pTab->db)!=SQLITE_UTF8 ){
      int rc = sablecat_sql_is_held_by_utf16(pByte, nByte, &isHeld);
      if( rc!=SQLITE_OK ) return rc;
    }
    if( isHeld ){
      sablecatResult(pContext, pByte, nByte, isText);
    }else{
      char *zError = sqlite3_mprintf("a %s of %s is no text that UTF-16 can hold: make the table with %s=blob",
                                     sablecatColumns[iColumn], pTab->zTable, sablecatColumns[iColumn]);
      sqlite3_result_error(pContext, zError ? zError : "no text", -1);
      sqlite3_free(zError);
    }
  }else{
    u32 nPlace = p->nKey + 8;
    u8 *pPlace = sqlite3_malloc64(nPlace);
    if( pPlace==0 ) return SQLITE_NOMEM;
    if( p->nKey ) memcpy(pPlace, p->pKey, p->nKey);
    sqlite3Put4byte(&pPlace[p->nKey], (u32)(p->iNth>>32));
    sqlite3Put4byte(&pPlace[p->nKey+4], (u32)p->iNth);
    sqlite3_result_blob64(pContext, pPlace, nPlace, sqlite3_free);
  }
  return SQLITE_OK;
}

/* Not asked of a table without row ids. */
static int sablecatRowid(sqlite3_vtab_cursor *pCursor, sqlite3_int64 *pRowid){
  (void)pCursor;
  (void)pRowid;
  return SQLITE_ERROR;
}

/* ---- Writing ---- */

static int sablecatRefuse(SablecatTable *pTab, int rc, char *zWhy){
  sqlite3_free(pTab->base.zErrMsg);
  pTab->base.zErrMsg = zWhy;
  return zWhy ? rc : SQLITE_NOMEM;
}

/* What is to be a key, or the value of one. */
static int sablecatNew(SablecatTable *pTab, sqlite3_value *pValue, int iColumn, SablecatBytes *pBytes){
  int eType = sqlite3_value_type(pValue), isText = pTab->aIsText[iColumn];
  const char *zColumn = sablecatColumns[iColumn];
  if( eType==SQLITE_NULL ){
    return sablecatRefuse(pTab, SQLITE_CONSTRAINT,
        sqlite3_mprintf("NOT NULL constraint failed: %s.%s", pTab->zTable, zColumn));
  }
  if( isText ? eType==SQLITE_BLOB : eType!=SQLITE_BLOB ){
    return sablecatRefuse(pTab, SQLITE_MISMATCH,
        sqlite3_mprintf("%s.%s is made of %s; for the other %s=%s is said where the table is made",
                        pTab->zTable, zColumn, isText ? "text" : "blobs", zColumn, isText ? "blob" : "text"));
  }
  return sablecatBytesOf(pValue, isText, pBytes);
}

/* Removes the record of the key in argv[0], if it is not null, and sets that of argv[2] and on, if they are
** there. */
static int sablecatUpdate(sqlite3_vtab *pVtab, int argc, sqlite3_value **argv, sqlite3_int64 *pRowid){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  SablecatBytes from = { 0, 0, 0, 0 }, key = { 0, 0, 0, 0 }, value = { 0, 0, 0, 0 };
  int rc = SQLITE_OK, isDone = 0, isReplacing = 0;
  (void)pRowid;
  if( pTab->eShape==SABLECAT_VALUES ){
    return sablecatRefuse(pTab, SQLITE_READONLY,
        sqlite3_mprintf("%s may not be modified: its keys have several values each", pTab->zTable));
  }
  if( sqlite3_value_type(argv[0])!=SQLITE_NULL ){
    rc = sablecatBytesOf(argv[0], pTab->aIsText[SABLECAT_KEY], &from);
  }
  if( rc==SQLITE_OK && argc>1 ){
    rc = sablecatNew(pTab, argv[2+SABLECAT_KEY], SABLECAT_KEY, &key);
    if( rc==SQLITE_OK ) rc = sablecatNew(pTab, argv[2+SABLECAT_VALUE], SABLECAT_VALUE, &value);
    isReplacing = sqlite3_vtab_on_conflict(pTab->db)==SQLITE_REPLACE;
  }
  if( rc!=SQLITE_OK ) return rc;
  do{
    rc = sablecat_sql_change(sablecatDb(pTab->pBtree), pTab->zDatabase, &from, &key, &value, isReplacing, &isDone);
  }while( rc==SQLITE_BUSY && sqlite3InvokeBusyHandler(&pTab->db->busyHandler) );
  if( rc==SQLITE_OK && !isDone ){
    rc = sablecatRefuse(pTab, SQLITE_CONSTRAINT,
        sqlite3_mprintf("UNIQUE constraint failed: %s.%s", pTab->zTable, sablecatColumns[SABLECAT_KEY]));
  }
  return rc;
}

static const sqlite3_module sablecatModule = {
  .iVersion = 1,
  .xCreate = sablecatCreate,
  .xConnect = sablecatConnect,
  .xBestIndex = sablecatBestIndex,
  .xDisconnect = sablecatDisconnect,
  .xDestroy = sablecatDisconnect,
  .xOpen = sablecatWalkOpen,
  .xClose = sablecatWalkClose,
  .xFilter = sablecatFilter,
  .xNext = sablecatWalkNext,
  .xEof = sablecatWalkEof,
  .xColumn = sablecatColumn,
  .xRowid = sablecatRowid,
  .xUpdate = sablecatUpdate,
  .xRename = sablecatRename,
};

/* What a connection has from the beginning. Where memory is short for it, SQLite looks at that afterwards. */
SQLITE_PRIVATE void sqlite3RegisterPerConnectionBuiltinFunctions(sqlite3 *db){
  sablecatStock_sqlite3RegisterPerConnectionBuiltinFunctions(db);
  (void)sqlite3VtabCreateModule(db, "sablecat", &sablecatModule, 0, 0);
}
