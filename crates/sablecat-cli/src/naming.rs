//! How records are named: by keys, by numbers, or as nodes of a global.

use std::ops::Bound;

use sablecat::globals::{Globals, Node};
use sablecat::{Database, Holds};

use crate::Failure;
use crate::arguments::from_hex;

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
    /// What an argument names in a database: `hex` is for keys alone.
    pub(crate) fn of(database: &Database, text: &str, hex: bool) -> Result<Name, Failure> {
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
            _ => bytes(text, hex).map(Name::Key),
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
