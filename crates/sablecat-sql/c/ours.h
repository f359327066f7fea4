/*
** Where SQLite calls its b-tree, and either that or sablecat's answers.
**
** This file and its neighbours end SQLite's amalgamation, see all of it, and define what was renamed there:
** each function passes a call on to SQLite's own, sablecatStock_*, unless the Btree or BtCursor is
** sablecat's.
**
** A Btree of sablecat's is an empty one of SQLite's, in memory, with pSablecat set. So whatever is not about
** records (mutexes, the parsed schema, lists of connections, settings of the pager) is answered by SQLite's
** own code, and nothing of it needs another definition. Its cursors are SQLite's structure as well, on
** SQLite's list, in SQLite's states:
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

#if SQLITE_VERSION_NUMBER<=3046001
# define sqlite3BinaryCompare binCollFunc
# define termFromWhereClause(pWC, iTerm) (&(pWC)->a[iTerm])
#endif

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

/* A record that was read ahead. */
typedef struct SablecatRead {
  i64 iRowid;                /* Of a table; in an index something else */
  u32 iData;                 /* Where its content begins */
  u32 nData;
} SablecatRead;

/* What was read ahead of a cursor, of which this is the beginning. A cursor that is VALID, so that nothing
** has been written since, goes on among these by itself. */
typedef struct SablecatAhead {
  const u8 *pByte;           /* What they have */
  const SablecatRead *aRead;
  u32 nRead;
  u32 iRead;                 /* At which one the cursor is */
  u8 isBack;                 /* They are in descending order */
} SablecatAhead;

/* What is known of the numbers that AUTOINCREMENT has given in a table. */
typedef struct SablecatSequence {
  i64 iLast;                 /* The greatest */
  i64 iRow;                  /* The row of the table of sequences that says so; 0 if there is none yet */
  u32 iRoot;                 /* That table */
} SablecatSequence;

/* How a column of a key is ordered. */
typedef struct SablecatOrder {
  u8 eCollation;             /* 0 BINARY, 1 NOCASE, 2 RTRIM */
  u8 isDescending;
} SablecatOrder;

/* A column of a table of keys and values. */
typedef struct SablecatColumn {
  const char *zName;
  u8 eAffinity;              /* SQLITE_AFF_BLOB and on */
  u8 isSorted;               /* Keys are in the order of its values */
  u8 isExact;                /* Different bytes are different values */
} SablecatColumn;

/* What there is to know of such a table. */
typedef struct SablecatLayout {
  const char *zDeclaration;
  const SablecatColumn *aColumn;
  u32 nColumn;
  u32 nKey;                  /* The first ones are the key's */
  u8 isOrdered;              /* By their bytes: not by hashes */
  u8 isOfValues;             /* A key has several values */
  u8 hasPlace;               /* Rows are known by the last column, not by the first */
} SablecatLayout;

/* How large a tree is, about. */
typedef struct SablecatSize {
  i64 nPage;
  i64 nRecord;
  i64 nByte;                 /* In use in its pages */
  i64 szPage;
} SablecatSize;

/* What a Btree of sablecat's has. */
typedef struct SablecatBtree {
  void *pDb;                 /* Rust's */
  char *zFilename;
  int eSync;                 /* As PRAGMA synchronous says */
  u8 isCommitted;            /* By phase one, of which phase two is to come */
  void *aRow;                /* A row that sqlite3BtreeTransferRow() left for the next insert */
  u32 nRow;
} SablecatBtree;

/* Where a connection counts its statements in progress */
typedef struct SablecatStatements {
  const int *pnWriting;      /* Those that write */
  const int *pnRunning;      /* Those that run at this moment, one within the other */
} SablecatStatements;

/* src/border */
extern int sablecat_sql_open(const char*, const char*, int, const SablecatStatements*, void**);
extern int sablecat_sql_is_there(const char*, int*);
extern int sablecat_sql_is_same(void*, void*, int*);
extern int sablecat_sql_close(void*);
extern int sablecat_sql_begin(void*, int isWrite, int isAlone, int isExplicit, int isSavepoint);
extern int sablecat_sql_is_snapshot(void*, int*);
extern int sablecat_sql_isolation(void*, const char *zWanted, const char **pzIs);
extern int sablecat_sql_version(void*, u32*);
extern int sablecat_sql_may_commit(void*);
extern int sablecat_sql_commit(void*, int eSync);
extern int sablecat_sql_end(void*);
extern int sablecat_sql_begin_statement(void*, int nSavepoint, int isByItself);
extern int sablecat_sql_be_whole(void*, int iStatement);
extern int sablecat_sql_savepoint(void*, int isRollback, int iSavepoint);
extern int sablecat_sql_create(void*, u32*);
extern int sablecat_sql_drop(void*, u32);
extern int sablecat_sql_clear(void*, u32, i64*);
extern int sablecat_sql_meta(void*, int, u32*);
extern int sablecat_sql_set_meta(void*, int, u32);
extern int sablecat_sql_last_root(void*, u32*);
extern int sablecat_sql_checkpoint(void*);
extern int sablecat_sql_compact(void*);
extern int sablecat_sql_verify(void*, char**);
extern int sablecat_sql_check(void*, u32, i64*);
extern int sablecat_sql_size(void*, u32, SablecatSize*);
extern int sablecat_sql_next_alone(void*);
extern const char *sablecat_sql_message(int);
extern int sablecat_sql_free(char*);
extern int sablecat_sql_cursor(void*, u32, const SablecatOrder*, u32, int eEncoding, int isSequences, void**);
extern int sablecat_sql_cursor_close(void*);
extern int sablecat_sql_of_blob(void*);
extern int sablecat_sql_edge(void*, int isLast, int isOfSequences, SablecatRow*);
extern int sablecat_sql_step(void*, int isForward, SablecatRow*);
extern int sablecat_sql_refresh(void*, SablecatRow*);
extern int sablecat_sql_seek_rowid(void*, i64, SablecatRow*);
extern int sablecat_sql_seek_key(void*, const SablecatValue*, u32, int eWhere, SablecatRow*);
extern int sablecat_sql_before_new(void*, const SablecatSequence*, i64*);
extern int sablecat_sql_insert(void*, i64, const void*, u32, u32 nZero);
extern int sablecat_sql_insert_sequence(void*, i64, const void*, u32);
extern int sablecat_sql_insert_key(void*, const void*, u32);
extern int sablecat_sql_delete(void*);
extern int sablecat_sql_count(void*, i64*);
extern int sablecat_sql_estimate(void*, i64*);

/* src/border/key_value */
extern int sablecat_sql_table(void*, const char *zDatabase, u32 nArg, const char *const*azArg, int isNew,
                              void **ppTable, const SablecatLayout**);
extern int sablecat_sql_table_close(void*);
extern int sablecat_sql_records(void*, const void *pTable, i64*);
extern int sablecat_sql_change(void*, const void *pTable, const char *zName, const SablecatValue *pKnown,
                               const SablecatValue *aNew, u32 nNew, int isReplacing, i64 *piRowid);
extern int sablecat_sql_entries(void*, const void *pTable, void**);
extern int sablecat_sql_entries_close(void*);
extern int sablecat_sql_entries_seek(void*, const SablecatValue *aValue, u32 nEqual, int eHow, int *pisThere);
extern int sablecat_sql_entries_step(void*, int *pisThere);
extern int sablecat_sql_entries_column(void*, int, SablecatValue*);
extern int sablecat_sql_is_held_by_utf16(const void*, u32, int*);

/* How a statement reads such a table: by values of the first columns of the key, SABLECAT_EQUAL times as
** many, and bounds for the next, from below and from above */
#define SABLECAT_FROM      1
#define SABLECAT_TO        2
#define SABLECAT_ABOVE     4   /* FROM without the value itself */
#define SABLECAT_BELOW     8   /* TO without it */
#define SABLECAT_BACK     16
#define SABLECAT_EQUAL    32
#define SABLECAT_EQUALS(eHow) (((u32)(eHow)/SABLECAT_EQUAL) & 0x1f)
#define SABLECAT_EQUALS_MAX 16
/* A bit for each value that is given, which says that it is compared as it is, whatever its type. */
#define SABLECAT_AS_IS(i) (1<<(10+(i)))

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
