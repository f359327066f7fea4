//! SQLite's source, taken apart at its own marks and put together again around our dispatcher.
//!
//! The amalgamation says where each of its files begins and ends. Functions that the dispatcher is to stand
//! in for get another name in the file that defines them, so that callers everywhere else find the
//! dispatcher's. Apart from that only three structures change: each gets a field, which is zero in what is
//! SQLite's own. The dispatcher comes last, where it sees everything.

/// Functions that get another name: in which header they are declared, from the beginning of which file to
/// the end of which they keep that name.
struct Renamed {
    header: Option<&'static str>,
    from: &'static str,
    to: &'static str,
    names: &'static [&'static str],
}

const RENAMED: &[Renamed] = &[
    Renamed {
        header: Some("btree.h"),
        from: "btmutex.c",
        to: "backup.c",
        names: &[
            "sqlite3BtreeOpen",
            "sqlite3BtreeClose",
            "sqlite3BtreeSetPagerFlags",
            "sqlite3BtreeSetAutoVacuum",
            "sqlite3BtreeLastPage",
            "sqlite3BtreeBeginTrans",
            "sqlite3BtreeCommitPhaseOne",
            "sqlite3BtreeCommitPhaseTwo",
            "sqlite3BtreeCommit",
            "sqlite3BtreeRollback",
            "sqlite3BtreeBeginStmt",
            "sqlite3BtreeSavepoint",
            "sqlite3BtreeCreateTable",
            "sqlite3BtreeDropTable",
            "sqlite3BtreeClearTable",
            "sqlite3BtreeClearTableOfCursor",
            "sqlite3BtreeTripAllCursors",
            "sqlite3BtreeGetMeta",
            "sqlite3BtreeUpdateMeta",
            "sqlite3BtreeSetVersion",
            "sqlite3BtreeCheckpoint",
            "sqlite3BtreeGetFilename",
            "sqlite3BtreeCopyFile",
            "sqlite3BtreeCursor",
            "sqlite3BtreeCloseCursor",
            "sqlite3BtreeTableMoveto",
            "sqlite3BtreeIndexMoveto",
            "sqlite3BtreeCursorRestore",
            "sqlite3BtreeDelete",
            "sqlite3BtreeInsert",
            "sqlite3BtreeFirst",
            "sqlite3BtreeIsEmpty",
            "sqlite3BtreeLast",
            "sqlite3BtreeNext",
            "sqlite3BtreeEof",
            "sqlite3BtreePrevious",
            "sqlite3BtreeIntegerKey",
            "sqlite3BtreeOffset",
            "sqlite3BtreePayload",
            "sqlite3BtreePayloadFetch",
            "sqlite3BtreePayloadSize",
            "sqlite3BtreePayloadChecked",
            "sqlite3BtreePutData",
            "sqlite3BtreeIncrblobCursor",
            "sqlite3BtreeMaxRecordSize",
            "sqlite3BtreeIntegrityCheck",
            "sqlite3BtreeRowCountEst",
            "sqlite3BtreeCount",
            "sqlite3BtreeTransferRow",
        ],
    },
    Renamed {
        header: Some("pager.h"),
        from: "pager.c",
        to: "pager.c",
        names: &["sqlite3PagerSetJournalMode", "sqlite3PagerGetJournalMode", "sqlite3PagerCloseWal"],
    },
    Renamed {
        header: Some("sqliteInt.h"),
        from: "func.c",
        to: "func.c",
        names: &["sqlite3RegisterPerConnectionBuiltinFunctions"],
    },
    Renamed { header: None, from: "vacuum.c", to: "vacuum.c", names: &["sqlite3RunVacuum"] },
    Renamed { header: None, from: "main.c", to: "main.c", names: &["sqlite3ErrStr", "sqlite3_file_control"] },
    Renamed { header: None, from: "memdb.c", to: "memdb.c", names: &["sqlite3_serialize"] },
    Renamed { header: None, from: "vdbeapi.c", to: "vdbeapi.c", names: &["sqlite3_step"] },
    Renamed {
        header: None,
        from: "backup.c",
        to: "backup.c",
        names: &["sqlite3_backup_init", "sqlite3_backup_step", "sqlite3_backup_finish"],
    },
];

/// Functions that versions before the newest do not have.
const LATER: &[&str] = &["sqlite3BtreeIsEmpty"];

/// A call that goes elsewhere: in which file, what is declared before it, what stands there, and what is to.
struct Redirected {
    file: &'static str,
    declared: &'static str,
    what: [&'static str; 2],
    to: &'static str,
}

const REDIRECTED: &[Redirected] = &[
    Redirected {
        file: "vdbe.c",
        declared: "static int sablecatBeforeNew(BtCursor*, Vdbe*, Mem*, int, int*);\n",
        what: ["if( !pC->useRandomRowid ){\n      rc = ", "sqlite3BtreeLast(pC->uc.pCursor, &res);"],
        to: "sablecatBeforeNew(pC->uc.pCursor, p, aMem, pOp->p3, &res);",
    },
    Redirected {
        file: "insert.c",
        declared: "static void sablecatOpenSequences(Parse*, int, Table*, int);\n",
        what: ["    ", "sqlite3OpenTable(pParse, 0, p->iDb, pDb->pSchema->pSeqTab, OP_OpenRead);"],
        to: "sablecatOpenSequences(pParse, p->iDb, pDb->pSchema->pSeqTab, OP_OpenRead);",
    },
    Redirected {
        file: "insert.c",
        declared: "",
        what: ["    ", "sqlite3OpenTable(pParse, 0, p->iDb, pDb->pSchema->pSeqTab, OP_OpenWrite);"],
        to: "sablecatOpenSequences(pParse, p->iDb, pDb->pSchema->pSeqTab, OP_OpenWrite);",
    },
    Redirected {
        file: "tokenize.c",
        declared: "static i64 sablecatToken(const unsigned char*, int*);\n",
        what: ["while( 1 ){\n    n = ", "sqlite3GetToken((u8*)zSql, &tokenType);"],
        to: "sablecatToken((u8*)zSql, &tokenType);",
    },
    Redirected {
        file: "dbstat.c",
        declared: "struct StatCursor;\nstatic int sablecatSizes(struct StatCursor*, Btree*, u32);\n",
        what: [
            "u32 iRoot = (u32)sqlite3_column_int64(pCsr->pStmt, 1);\n      ",
            "sqlite3PagerPagecount(pPager, &nPage);",
        ],
        to: "if( pBt->pSablecat ) return sablecatSizes(pCsr, pBt, iRoot);\n      \
             sqlite3PagerPagecount(pPager, &nPage);",
    },
    Redirected {
        file: "main.c",
        declared: "static const char *sablecatErrStr(int);\n",
        what: ["z = ", "sqlite3ErrStr(db->errCode);"],
        to: "sablecatErrStr(db->errCode);",
    },
];

/// The file that asks the C library for memory,
const MEMORY: &str = "mem1.c";
/// which functions it asks, and their counterparts in mimalloc, with which threads do not share what is free.
const ALLOCATOR: [[&str; 3]; 3] = [
    ["malloc", "mi_malloc", "void *mi_malloc(size_t);"],
    ["realloc", "mi_realloc", "void *mi_realloc(void*, size_t);"],
    ["free", "mi_free", "void mi_free(void*);"],
];
/// The C library would be asked how large what mimalloc gave is. SQLite can keep that itself.
const SIZE_KEPT: &str = "#undef HAVE_MALLOC_USABLE_SIZE\n";

/// The field that three structures get: none in what is SQLite's own. All are made of zeros at first.
const FIELD: &str = "  void *pSablecat;\n";

/// Which version the source is of.
pub(crate) fn version(text: &str) -> Option<&str> {
    let rest = &text[text.find("#define SQLITE_VERSION ")?..];
    rest.lines().next()?.split('"').nth(1)
}

/// The source, with our dispatcher.
pub(crate) fn with_dispatcher(text: &str, dispatcher: &str) -> Result<String, String> {
    let mut whole = text.to_owned();
    for renamed in RENAMED {
        whole = rename(&whole, renamed)?;
    }
    for redirected in REDIRECTED {
        whole = redirect(&whole, redirected)?;
    }
    for structure in ["struct Btree {", "struct BtCursor {", "struct sqlite3_backup {"] {
        let at = once(&whole, &format!("\n{structure}\n"))?;
        // Behind what others look at by its place: the first byte of a cursor says whether it has moved.
        let field = whole[at..].find("  Btree *p").ok_or_else(|| format!("{structure} has other fields"))?;
        whole.insert_str(at + field, FIELD);
    }
    whole.push('\n');
    whole.push_str(dispatcher);
    Ok(whole)
}

/// The source, with memory from mimalloc.
pub(crate) fn with_mimalloc(text: &str) -> Result<String, String> {
    let (from, to) = (begin(text, MEMORY)?, end(text, MEMORY)?);
    let before = ALLOCATOR.map(|[name, other, declared]| format!("{declared}\n#define {name} {other}\n"));
    let after = ALLOCATOR.map(|[name, ..]| format!("#undef {name}\n"));
    Ok([&text[..from], SIZE_KEPT, &before.concat(), &text[from..to], &after.concat(), &text[to..]].concat())
}

/// Where in the text something stands that must be there once.
fn once(text: &str, what: &str) -> Result<usize, String> {
    let mut places = text.match_indices(what);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at),
        (None, _) => Err(format!("SQLite's source has no {what:?}")),
        _ => Err(format!("SQLite's source has {what:?} more than once")),
    }
}

/// Where a file begins, after the mark.
fn begin(text: &str, file: &str) -> Result<usize, String> {
    let mark = format!("/************** Begin file {file} *");
    let at = once(text, &mark)?;
    Ok(at + text[at..].find('\n').ok_or("a mark without an end")? + 1)
}

/// Where a file ends, before the mark.
fn end(text: &str, file: &str) -> Result<usize, String> {
    once(text, &format!("/************** End of {file} *"))
}

fn rename(text: &str, renamed: &Renamed) -> Result<String, String> {
    let (from, to) = (begin(text, renamed.from)?, end(text, renamed.to)?);
    let declared = match renamed.header {
        Some(header) => &text[begin(text, header)?..end(text, header)?],
        None => &text[..from],
    };
    let (mut before, mut after) = (String::new(), String::new());
    let names =
        renamed.names.iter().filter(|name| !LATER.contains(name) || prototype(declared, name).is_ok());
    for name in names.clone() {
        before.push_str(&format!("#define {name} sablecatStock_{name}\n"));
        after.push_str(&format!("#undef {name}\n"));
    }
    for name in names {
        before.push_str(prototype(declared, name)?);
        before.push('\n');
    }
    Ok([&text[..from], &before, &text[from..to], &after, &text[to..]].concat())
}

fn redirect(text: &str, redirected: &Redirected) -> Result<String, String> {
    let [before, call] = redirected.what;
    let (from, at) = (begin(text, redirected.file)?, once(text, &[before, call].concat())? + before.len());
    if at < from {
        return Err(format!("{call:?} is not in {}", redirected.file));
    }
    Ok([&text[..from], redirected.declared, &text[from..at], redirected.to, &text[at + call.len()..]]
        .concat())
}

/// The declaration of a function.
fn prototype<'t>(text: &'t str, name: &str) -> Result<&'t str, String> {
    let call = format!("{name}(");
    for (at, _) in text.match_indices(&call) {
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = &text[start..];
        if line.starts_with("SQLITE_PRIVATE") || line.starts_with("SQLITE_API") {
            let length = line.find(';').ok_or_else(|| format!("the declaration of {name} has no end"))?;
            return Ok(&line[..=length]);
        }
    }
    Err(format!("SQLite's source does not declare {name}"))
}
