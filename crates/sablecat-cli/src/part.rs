//! The part of a database that a command is about: records between two keys, or those that begin with one.

use std::ops::Bound;

use sablecat::tuple::{self, Element};
use sablecat::{Env, Read};

use crate::naming::{Name, Names, Spelling};
use crate::shown::Shown;
use crate::{Failure, tuples};

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
    pub(crate) fn names(
        &self,
        shown: &Shown<impl Read<Of = Env>>,
        spelling: Spelling,
    ) -> Result<Names, Failure> {
        let name = |argument: &Option<String>| {
            argument.as_deref().map(|text| shown.name(text, spelling)).transpose()
        };
        let is_tuple = spelling.tuple && self.prefix.as_deref().is_some_and(tuples::is_tuple);
        match name(&self.prefix)? {
            Some(Name::Key(key)) if is_tuple => {
                let (from, to) = tuple::beginning_with(&tuple::unpack::<Vec<Element>>(&key)?);
                return Ok(Names::Between(from.map(Name::Key), to.map(Name::Key)));
            }
            Some(prefix) => return Ok(Names::BeginningWith(prefix)),
            None => {}
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
