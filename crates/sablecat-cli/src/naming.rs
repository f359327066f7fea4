//! How records are named: by keys, by numbers, or as nodes of a global.

use std::ops::Bound;

use clap::Args;
use sablecat::globals::{Globals, Node};
use sablecat::{Database, Holds};

use crate::arguments::from_hex;
use crate::{Failure, tuples};

/// How bytes are written and shown.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Spelling {
    /// Keys and values are hexadecimal digits instead of text; numbers of records, and references to nodes of
    /// globals, stay as they are
    #[arg(long)]
    pub(crate) hex: bool,
    /// Keys are tuples, written as JSON arrays such as ["acct",42,null,1.5,true,["nested"]]
    ///
    /// Numbers with a point or an exponent are floats of 64 bits. Elements that JSON does not have are
    /// written {"hex":"00ff"} (bytes), {"uuid":"01020304-0506-0708-090a-0b0c0d0e0f10"}, {"float":1.5} (of 32
    /// bits) and {"integer":"0x0102…"} (of more than 64 bits). A key that is no tuple is written
    /// {"hex":"00ff"}. A prefix stands for all tuples that begin with its elements. Values stay as they are,
    /// texts or with --hex digits.
    #[arg(long)]
    pub(crate) tuple: bool,
}

impl Spelling {
    /// The key that an argument stands for.
    pub(crate) fn key(self, text: &str) -> Result<Vec<u8>, Failure> {
        if self.tuple { tuples::read(text) } else { bytes(text, self.hex) }
    }
}

/// What names a record, where records are as its database has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Key(Vec<u8>),
    /// Of a queue and of numbered records.
    Number(u64),
    /// A reference to a node of a global: `^acct(42,"name")`.
    Node(String),
}

/// Which records, as their database has them.
#[derive(Debug)]
pub(crate) enum Names {
    /// From one on, up to another.
    Between(Bound<Name>, Bound<Name>),
    BeginningWith(Name),
}

impl Name {
    /// What an argument names in a database: how it is spelled matters to keys alone.
    pub(crate) fn of(database: &Database, text: &str, spelling: Spelling) -> Result<Name, Failure> {
        let name = database.name();
        match database.holds() {
            holds @ (Holds::Queue { .. } | Holds::Numbers { .. } | Holds::Renumbered { .. }) => {
                text.parse().map(Name::Number).map_err(|_| {
                    format!(
                        "{text:?} as the number of a record: the database {name} holds {holds}; numbers are \
                         1, 2 and so on"
                    )
                    .into()
                })
            }
            Holds::Globals => Ok(Name::Node(node(&Globals::of(database.clone())?, text)?.to_string())),
            _ => spelling.key(text).map(Name::Key),
        }
    }
}

/// The node that an argument refers to, with or without the character that references begin with.
pub(crate) fn node<'g>(globals: &'g Globals, text: &str) -> Result<Node<'g>, Failure> {
    let reference = if text.starts_with('^') { text.to_owned() } else { format!("^{text}") };
    Ok(globals.node(&reference)?)
}

/// The bytes that an argument stands for.
pub(crate) fn bytes(text: &str, hex: bool) -> Result<Vec<u8>, Failure> {
    if hex {
        from_hex(text).ok_or_else(|| format!("{text:?} is not pairs of hexadecimal digits").into())
    } else {
        Ok(text.into())
    }
}
