//! What becomes of a transaction that has read something which another one changes meanwhile.

use sablecat::{Env, ErrorKind, Isolation, Result, Txn, TxnOptions};

/// Whether a change altered the answer, and whether the transaction with the old answer was refused.
pub struct Met {
    pub altered: bool,
    pub refused: bool,
}

/// Asks in a serialisable transaction that then writes elsewhere, and commits after `change` has. What the
/// answer would be after the change is found out by asking again; nothing else comes of that.
pub fn meet(env: &Env, ask: impl Fn(&mut Txn<'_>) -> Result<String>, change: impl FnOnce()) -> Result<Met> {
    let serialisable = || TxnOptions::new().isolation(Isolation::Serializable);
    let elsewhere = env.database("elsewhere")?;
    let mut txn = env.begin_with(serialisable())?;
    let before = ask(&mut txn)?;
    change();
    let after = ask(&mut env.begin_with(serialisable())?)?;
    txn.insert(&elsewhere, "the answer", &before)?;
    let refused = match txn.commit() {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::Conflict => true,
        Err(error) => return Err(error),
    };
    Ok(Met { altered: before != after, refused })
}

/// Where something is asked, or changed: changes at one place alter no answer of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Begin,
    Middle,
    End,
    /// All three, and all between.
    Everywhere,
}

/// What is known of a question after some changes.
#[derive(Default)]
pub struct Tally {
    altered: usize,
    far: usize,
}

impl Tally {
    /// A change that alters the answer must be a conflict, and one far away must alter and be nothing.
    pub fn note(&mut self, met: &Met, is_far: bool, what: impl Fn() -> String) {
        assert!(met.refused || !met.altered, "not noticed: {}", what());
        assert!(!is_far || !met.altered && !met.refused, "taken for a conflict: {}", what());
        self.altered += usize::from(met.altered);
        self.far += usize::from(is_far);
    }

    /// There was something of both kinds.
    pub fn finish(&self, at: At, what: &str) {
        assert!(self.altered > 0, "no change alters the answer of {what}");
        assert!(self.far > 0 || at == At::Everywhere, "no change is far from {what}");
    }
}
