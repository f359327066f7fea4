//! The part of a database that a command is about: records between two keys, or those that begin with one.

use std::ops::Bound;

use sablecat::{Env, Read};

use crate::Failure;
use crate::naming::Names;
use crate::shown::Shown;

/// Which records; all, where nothing is said.
#[derive(Debug, clap::Args)]
pub(crate) struct Part {
    /// Only keys at or above this one (inclusive)
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys below this one (exclusive)
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin with this; of globals, this node and its descendants
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
}

impl Part {
    /// What the arguments name in a database.
    pub(crate) fn names(&self, shown: &Shown<impl Read<Of = Env>>, hex: bool) -> Result<Names, Failure> {
        let name =
            |argument: &Option<String>| argument.as_deref().map(|text| shown.name(text, hex)).transpose();
        if let Some(prefix) = name(&self.prefix)? {
            return Ok(Names::BeginningWith(prefix));
        }
        let (from, to) = (name(&self.from)?, name(&self.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && shown.key(from)? > shown.key(to)?
        {
            return Err("--from is after --to".into());
        }
        Ok(Names::Between(
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        ))
    }
}
