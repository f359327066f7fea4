/*
** Databases of keys and values of the same environment, as virtual tables: the module "sablecat", which every
** connection has.
**
** A table is of the environment that its schema is in. What it reads and changes it does in the transaction
** of that environment's Btree, which SQLite begins, commits, and takes savepoints of, as it does for the
** tables there: so none of that is asked of the module.
*/

/* A table. Of its Btree nothing is used once that is closed, before which its statements are over. */
typedef struct SablecatTable {
  sqlite3_vtab base;
  sqlite3 *db;
  Btree *pBtree;
  char *zTable;
  void *pTable;              /* Rust's */
  const SablecatLayout *pLayout;
} SablecatTable;

/* A statement's place in it. */
typedef struct SablecatWalk {
  sqlite3_vtab_cursor base;
  void *pEntries;            /* Rust's */
  int isThere;
} SablecatWalk;

/* ---- Tables ---- */

/* Rust's handle of the environment; none of a file that was copied from one, with the schema of that. */
static void *sablecatHandle(SablecatTable *pTab){
  return pTab->pBtree && pTab->pBtree->pSablecat ? sablecatDb(pTab->pBtree) : 0;
}

/* What is wrong with a table of such a file, or with making one there. */
static char *sablecatNowhere(const char *zSchema){
  return sqlite3_mprintf("%s is no environment of sablecat: there are no databases of keys and values in it",
                         zSchema);
}

/* The same, for a caller that is to read or change it. */
static int sablecatIsNowhere(SablecatTable *pTab){
  if( sablecatHandle(pTab) ) return 0;
  sqlite3_free(pTab->base.zErrMsg);
  pTab->base.zErrMsg = sablecatNowhere("the database that the table is in");
  return 1;
}

static int sablecatDisconnect(sqlite3_vtab *pVtab){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  if( pTab->pTable ) sablecat_sql_table_close(pTab->pTable);
  sqlite3_free(pTab->zTable);
  sqlite3_free(pTab);
  return SQLITE_OK;
}

/* Reads the arguments of CREATE VIRTUAL TABLE: argv[1] is the schema, argv[2] the table, argv[3] the
** database. */
static int sablecatArguments(
  SablecatTable *pTab,
  int argc,
  const char *const*argv,
  char **pzErr,
  int isNew
){
  int iDb = sqlite3FindDbName(pTab->db, argv[1]);
  char *zDatabase;
  int rc;
  pTab->pBtree = iDb>=0 ? pTab->db->aDb[iDb].pBt : 0;
  if( isNew && sablecatHandle(pTab)==0 ){
    *pzErr = sablecatNowhere(argv[1]);
    return SQLITE_ERROR;
  }
  if( argc<4 ){
    *pzErr = sqlite3_mprintf("the module sablecat wants the name of a database: sablecat('name')");
    return SQLITE_ERROR;
  }
  zDatabase = sqlite3_mprintf("%s", argv[3]);
  pTab->zTable = sqlite3_mprintf("%s", argv[2]);
  if( zDatabase && pTab->zTable ){
    sqlite3Dequote(zDatabase);
    rc = sablecat_sql_table(sablecatHandle(pTab), zDatabase, (u32)(argc-4), &argv[4], isNew, &pTab->pTable,
                            &pTab->pLayout);
    if( rc!=SQLITE_OK ) *pzErr = sqlite3_mprintf("%s", sqlite3ErrStr(rc));
  }else{
    rc = SQLITE_NOMEM;
  }
  sqlite3_free(zDatabase);
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
  rc = sablecatArguments(pTab, argc, argv, pzErr, isNew);
  if( rc==SQLITE_OK ) rc = sqlite3_declare_vtab(db, pTab->pLayout->zDeclaration);
  if( rc==SQLITE_OK ) rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  if( rc==SQLITE_OK ) rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
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

/* ---- Values ---- */

/* A value as a column takes it, which has an affinity; an error if memory was short for it. */
static int sablecatGive(sqlite3_value *pValue, u8 eAffinity, SablecatValue *pGiven){
  int eType = eAffinity>=SQLITE_AFF_NUMERIC ? sqlite3_value_numeric_type(pValue) : sqlite3_value_type(pValue);
  memset(pGiven, 0, sizeof(*pGiven));
  if( eAffinity==SQLITE_AFF_TEXT && (eType==SQLITE_INTEGER || eType==SQLITE_FLOAT) ) eType = SQLITE_TEXT;
  switch( eType ){
    case SQLITE_INTEGER:
      pGiven->eType = 1;
      pGiven->iValue = sqlite3_value_int64(pValue);
      break;
    case SQLITE_FLOAT:
      pGiven->eType = 2;
      pGiven->rValue = sqlite3_value_double(pValue);
      break;
    case SQLITE_TEXT:
    case SQLITE_BLOB:
      pGiven->eType = eType==SQLITE_TEXT ? 3 : 4;
      pGiven->pByte = eType==SQLITE_TEXT ? (const void*)sqlite3_value_text(pValue)
                                         : sqlite3_value_blob(pValue);
      pGiven->nByte = (u32)sqlite3_value_bytes(pValue);
      if( pGiven->pByte==0 && (eType==SQLITE_TEXT || pGiven->nByte>0) ) return SQLITE_NOMEM;
      break;
  }
  return SQLITE_OK;
}

/* Whether text is text to SQLite, which has it in the encoding of the database: what comes back from there is
** to be what it was. If it is not, says so in *pzWhy, of SQLite's memory. */
static int sablecatIsHeld(SablecatTable *pTab, int iColumn, const SablecatValue *pValue, char **pzWhy){
  const char *zColumn = pTab->pLayout->aColumn[iColumn].zName;
  int isHeld = 1, rc;
  *pzWhy = 0;
  if( pValue->eType!=3 || ENC(pTab->db)==SQLITE_UTF8 ) return SQLITE_OK;
  rc = sablecat_sql_is_held_by_utf16(pValue->pByte, pValue->nByte, &isHeld);
  if( rc!=SQLITE_OK || isHeld ) return rc;
  *pzWhy = sqlite3_mprintf("a %s of %s is no text that UTF-16 can hold: make the table with %s=blob", zColumn,
                           pTab->zTable, zColumn);
  return *pzWhy ? SQLITE_MISMATCH : SQLITE_NOMEM;
}

/* A value as a column's. Bytes are copied: what they are in is used again for the next row. */
static int sablecatShow(SablecatTable *pTab, sqlite3_context *pContext, int iColumn, SablecatValue *pValue){
  char *zWhy;
  int rc = sablecatIsHeld(pTab, iColumn, pValue, &zWhy);
  if( zWhy ){
    sqlite3_result_error(pContext, zWhy, -1);
    sqlite3_free(zWhy);
    return SQLITE_OK;
  }
  if( rc!=SQLITE_OK ) return rc;
  switch( pValue->eType ){
    case 0:
      sqlite3_result_null(pContext);
      break;
    case 1:
      sqlite3_result_int64(pContext, pValue->iValue);
      break;
    case 2:
      sqlite3_result_double(pContext, pValue->rValue);
      break;
    case 3:
      sqlite3_result_text64(pContext, pValue->pByte, pValue->nByte, SQLITE_TRANSIENT, SQLITE_UTF8);
      break;
    default:
      sqlite3_result_blob64(pContext, pValue->nByte ? pValue->pByte : "", pValue->nByte, SQLITE_TRANSIENT);
      break;
  }
  return SQLITE_OK;
}

/* ---- How to read a table ---- */

/* Whether keys are in the order of a column's values, as SQLite has them. */
static int sablecatIsSorted(SablecatTable *pTab, const SablecatColumn *pColumn){
  return pColumn->isSorted && (pColumn->eAffinity!=SQLITE_AFF_TEXT || ENC(pTab->db)==SQLITE_UTF8);
}

static WhereTerm *sablecatTerm(sqlite3_index_info *pInfo, int iCons){
  HiddenIndexInfo *pHidden = (HiddenIndexInfo*)&pInfo[1];
  return termFromWhereClause(pHidden->pWC, pInfo->aConstraint[iCons].iTermOffset);
}

/* Whether a condition says something of the bytes that a column has: it compares values as they are, by
** BINARY, in the order of their bytes. */
static int sablecatIsOfBytes(SablecatTable *pTab, sqlite3_index_info *pInfo, int iCons){
  WhereTerm *pTerm = sablecatTerm(pInfo, iCons);
  u8 eAffinity = pTab->pLayout->aColumn[pInfo->aConstraint[iCons].iColumn].eAffinity;
  /* What LIKE and GLOB want of text is not what they find in blobs. */
  if( pTerm==0 || (pTerm->wtFlags & TERM_LIKEOPT)!=0 ) return 0;
  /* Of row values SQLite tells how the first ones are compared. */
  if( (pTerm->wtFlags & TERM_SLICE)!=0 ) return 0;
  if( eAffinity==SQLITE_AFF_TEXT && ENC(pTab->db)!=SQLITE_UTF8 ) return 0;
  if( sqlite3_stricmp(sqlite3_vtab_collation(pInfo, iCons), sqlite3StrBINARY)!=0 ) return 0;
  return sqlite3IndexAffinityOk(pTerm->pExpr, (char)eAffinity);
}

/* Has a condition give its value, the next of those that are given: with another column that is not of
** numbers either, it is compared as it is. */
static void sablecatUse(sqlite3_index_info *pInfo, int iCons, int *pnGiven, int *peHow){
  if( comparisonAffinity(sablecatTerm(pInfo, iCons)->pExpr)==SQLITE_AFF_BLOB ){
    *peHow |= SABLECAT_AS_IS(*pnGiven);
  }
  pInfo->aConstraintUsage[iCons].argvIndex = ++*pnGiven;
}

/* The first condition on a column with one of two operators that says something of its bytes; -1 if there is
** none. */
static int sablecatCondition(
  SablecatTable *pTab,
  sqlite3_index_info *pInfo,
  u32 iColumn,
  int eOp,
  int eOther
){
  int i;
  for(i=0; i<pInfo->nConstraint; i++){
    int eThis = pInfo->aConstraint[i].op;
    if( pInfo->aConstraint[i].usable && pInfo->aConstraint[i].iColumn==(int)iColumn
     && (eThis==eOp || eThis==eOther) && sablecatIsOfBytes(pTab, pInfo, i) ) return i;
  }
  return -1;
}

/* Whether rows come in the order that is asked for, where the first nEqual columns have one value each. */
static int sablecatIsInOrder(SablecatTable *pTab, sqlite3_index_info *pInfo, u32 nEqual){
  const SablecatLayout *p = pTab->pLayout;
  u32 iNext = nEqual, i;
  int j;
  if( !p->isOrdered || pInfo->nOrderBy==0 ) return 0;
  for(i=0; i<nEqual; i++){
    if( !p->aColumn[i].isExact ) return 0;
  }
  for(j=0; j<pInfo->nOrderBy; j++){
    u32 iColumn = (u32)pInfo->aOrderBy[j].iColumn;
    if( iColumn<nEqual ) continue;
    if( iColumn!=iNext || iNext>=p->nKey || pInfo->aOrderBy[j].desc!=pInfo->aOrderBy[0].desc ) return 0;
    if( !sablecatIsSorted(pTab, &p->aColumn[iNext]) ) return 0;
    if( iNext>nEqual && !p->aColumn[iNext-1].isExact ) return 0;
    iNext++;
  }
  return !pInfo->aOrderBy[0].desc || !p->isOfValues;
}

/* What EXPLAIN QUERY PLAN shows of it. */
static char *sablecatPlan(const SablecatLayout *p, u32 nEqual, int eHow){
  sqlite3_str *pStr = sqlite3_str_new(0);
  u32 i;
  for(i=0; i<nEqual; i++) sqlite3_str_appendf(pStr, "%s%s=?", i ? " AND " : "", p->aColumn[i].zName);
  if( eHow & (SABLECAT_FROM|SABLECAT_TO) ){
    const char *zBound = " between";
    if( (eHow & SABLECAT_TO)==0 ) zBound = eHow & SABLECAT_ABOVE ? ">?" : ">=?";
    if( (eHow & SABLECAT_FROM)==0 ) zBound = eHow & SABLECAT_BELOW ? "<?" : "<=?";
    sqlite3_str_appendf(pStr, "%s%s%s", nEqual ? " AND " : "", p->aColumn[nEqual].zName, zBound);
  }
  return sqlite3_str_finish(pStr);
}

/* Of the conditions that a statement can give, values of the first columns of the key are taken, as far as
** there are such, and one bound from either side of the next. SQLite looks at all of them once more. */
static int sablecatBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  const SablecatLayout *p = pTab->pLayout;
  u32 nEqual, i;
  int aEqual[SABLECAT_EQUALS_MAX];
  int iFrom = -1, iTo = -1, n = 0, eHow = 0, isUnique = !p->isOfValues;
  i64 nEntry = 0;
  double rEntry;

  for(nEqual=0; nEqual<p->nKey && nEqual<SABLECAT_EQUALS_MAX; nEqual++){
    aEqual[nEqual] = sablecatCondition(pTab, pInfo, nEqual, SQLITE_INDEX_CONSTRAINT_EQ,
                                       SQLITE_INDEX_CONSTRAINT_EQ);
    if( aEqual[nEqual]<0 ) break;
  }
  /* Where keys are in no order, one is found by all that it has. */
  if( !p->isOrdered && nEqual<p->nKey ) nEqual = 0;
  for(i=0; i<nEqual; i++){
    sablecatUse(pInfo, aEqual[i], &n, &eHow);
    if( !p->aColumn[i].isExact ) isUnique = 0;
  }
  if( p->isOrdered && nEqual<p->nKey ){
    iFrom = sablecatCondition(pTab, pInfo, nEqual, SQLITE_INDEX_CONSTRAINT_GE, SQLITE_INDEX_CONSTRAINT_GT);
    iTo = sablecatCondition(pTab, pInfo, nEqual, SQLITE_INDEX_CONSTRAINT_LE, SQLITE_INDEX_CONSTRAINT_LT);
  }
  if( iFrom>=0 ){
    sablecatUse(pInfo, iFrom, &n, &eHow);
    eHow |= SABLECAT_FROM;
    if( pInfo->aConstraint[iFrom].op==SQLITE_INDEX_CONSTRAINT_GT ) eHow |= SABLECAT_ABOVE;
  }
  if( iTo>=0 ){
    sablecatUse(pInfo, iTo, &n, &eHow);
    eHow |= SABLECAT_TO;
    if( pInfo->aConstraint[iTo].op==SQLITE_INDEX_CONSTRAINT_LT ) eHow |= SABLECAT_BELOW;
  }
  if( sablecatIsInOrder(pTab, pInfo, nEqual) ){
    pInfo->orderByConsumed = 1;
    if( pInfo->aOrderBy[0].desc ) eHow |= SABLECAT_BACK;
  }

  /* What goes wrong here does when the table is read, where there is somebody to be told. */
  if( sablecatHandle(pTab)==0
   || sablecat_sql_records(sablecatHandle(pTab), pTab->pTable, &nEntry)!=SQLITE_OK
  ){
    nEntry = 0;
  }
  rEntry = nEntry>0 ? (double)nEntry : 1.0;
  if( nEqual==p->nKey ){
    rEntry = p->isOfValues && rEntry>4.0 ? 4.0 : 1.0;
    if( isUnique ) pInfo->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  }else{
    for(i=0; i<nEqual; i++) rEntry /= 10.0;
    if( eHow & SABLECAT_FROM ) rEntry /= 4.0;
    if( eHow & SABLECAT_TO ) rEntry /= 4.0;
    if( rEntry<1.0 ) rEntry = 1.0;
  }
  pInfo->estimatedRows = (i64)rEntry;
  pInfo->estimatedCost = rEntry*1.5 + 8.0;
  pInfo->idxNum = eHow | (int)nEqual*SABLECAT_EQUAL;
  if( n==0 ) return SQLITE_OK;
  pInfo->idxStr = sablecatPlan(p, nEqual, eHow);
  pInfo->needToFreeIdxStr = 1;
  return pInfo->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- Reading ---- */

static int sablecatWalkOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCursor){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  SablecatWalk *pWalk;
  int rc;
  if( sablecatIsNowhere(pTab) ) return SQLITE_ERROR;
  pWalk = sqlite3_malloc(sizeof(*pWalk));
  if( pWalk==0 ) return SQLITE_NOMEM;
  memset(pWalk, 0, sizeof(*pWalk));
  rc = sablecat_sql_entries(sablecatHandle(pTab), pTab->pTable, &pWalk->pEntries);
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

static int sablecatFilter(
  sqlite3_vtab_cursor *pCursor,
  int eHow,
  const char *zHow,
  int argc,
  sqlite3_value **argv
){
  SablecatWalk *pWalk = (SablecatWalk*)pCursor;
  const SablecatLayout *p = ((SablecatTable*)pCursor->pVtab)->pLayout;
  u32 nEqual = SABLECAT_EQUALS(eHow);
  SablecatValue aFew[4], *aValue = aFew;
  int rc = SQLITE_OK, i;
  (void)zHow;
  pWalk->isThere = 0;
  if( argc>ArraySize(aFew) ){
    aValue = sqlite3_malloc64(argc*sizeof(aValue[0]));
    if( aValue==0 ) return SQLITE_NOMEM;
  }
  for(i=0; i<argc && rc==SQLITE_OK; i++){
    u32 iColumn = (u32)i<nEqual ? (u32)i : nEqual;
    u8 eAffinity = p->aColumn[iColumn].eAffinity;
    if( eHow & SABLECAT_AS_IS(i) ) eAffinity = SQLITE_AFF_BLOB;
    rc = sablecatGive(argv[i], eAffinity, &aValue[i]);
  }
  if( rc==SQLITE_OK ){
    rc = sablecat_sql_entries_seek(pWalk->pEntries, aValue, nEqual, eHow & (SABLECAT_EQUAL-1),
                                   &pWalk->isThere);
  }
  if( aValue!=aFew ) sqlite3_free(aValue);
  return rc;
}

static int sablecatWalkNext(sqlite3_vtab_cursor *pCursor){
  SablecatWalk *pWalk = (SablecatWalk*)pCursor;
  pWalk->isThere = 0;
  return sablecat_sql_entries_step(pWalk->pEntries, &pWalk->isThere);
}

static int sablecatWalkEof(sqlite3_vtab_cursor *pCursor){
  return !((SablecatWalk*)pCursor)->isThere;
}

static int sablecatColumn(sqlite3_vtab_cursor *pCursor, sqlite3_context *pContext, int iColumn){
  SablecatWalk *pWalk = (SablecatWalk*)pCursor;
  SablecatValue value;
  int rc = sablecat_sql_entries_column(pWalk->pEntries, iColumn, &value);
  return rc==SQLITE_OK ? sablecatShow((SablecatTable*)pCursor->pVtab, pContext, iColumn, &value) : rc;
}

/* Not asked of a table without row ids. */
static int sablecatRowid(sqlite3_vtab_cursor *pCursor, sqlite3_int64 *pRowid){
  (void)pCursor;
  (void)pRowid;
  return SQLITE_ERROR;
}

/* ---- Writing ---- */

/* Removes the row known by argv[0], which is of the primary key, if that is not null, and sets that of
** argv[2] and on, if they are there. */
static int sablecatUpdate(sqlite3_vtab *pVtab, int argc, sqlite3_value **argv, sqlite3_int64 *pRowid){
  SablecatTable *pTab = (SablecatTable*)pVtab;
  const SablecatLayout *p = pTab->pLayout;
  SablecatValue known, *aNew = 0;
  u32 nNew = argc>1 ? p->nColumn : 0, i;
  int isKnown = sqlite3_value_type(argv[0])!=SQLITE_NULL, isReplacing = 0;
  i64 iRowid = pTab->db->lastRowid;
  char *zWhy = 0;
  int rc = SQLITE_OK;
  if( sablecatIsNowhere(pTab) ) return SQLITE_ERROR;
  if( isKnown ) rc = sablecatGive(argv[0], p->aColumn[p->hasPlace ? p->nColumn-1 : 0].eAffinity, &known);
  if( nNew ){
    aNew = sqlite3_malloc64(nNew*sizeof(aNew[0]));
    if( aNew==0 ) return SQLITE_NOMEM;
    isReplacing = sqlite3_vtab_on_conflict(pTab->db)==SQLITE_REPLACE;
  }
  for(i=0; i<nNew && rc==SQLITE_OK; i++){
    rc = sablecatGive(argv[2+i], p->aColumn[i].eAffinity, &aNew[i]);
    if( rc==SQLITE_OK ) rc = sablecatIsHeld(pTab, (int)i, &aNew[i], &zWhy);
  }
  if( rc==SQLITE_OK ){
    do{
      rc = sablecat_sql_change(sablecatHandle(pTab), pTab->pTable, pTab->zTable, isKnown ? &known : 0, aNew,
                               nNew, isReplacing, &iRowid);
    }while( rc==SQLITE_BUSY && sqlite3InvokeBusyHandler(&pTab->db->busyHandler) );
  }
  sqlite3_free(aNew);
  /* Where rows have no numbers, the last that was given stays what it is. */
  if( rc==SQLITE_OK ) *pRowid = iRowid;
  /* What programs tell apart is the code that SQLite has. */
  switch( rc & 0xff ){
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_READONLY: {
      if( zWhy==0 ) zWhy = sqlite3_mprintf("%s", sqlite3ErrStr(rc));
      sqlite3_free(pTab->base.zErrMsg);
      pTab->base.zErrMsg = zWhy;
      rc = zWhy ? rc & 0xff : SQLITE_NOMEM;
      break;
    }
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
