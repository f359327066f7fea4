//! The options that a run compares: what a commit of ours waits for. A variant is a name and what it sets
//! before opening.

use sablecat::{Builder, Durability, Journal};

/// One way to keep the journal.
pub(super) struct Variant {
    /// As commands and reports spell it.
    pub(super) name: &'static str,
    /// What a commit promises.
    pub(super) durability: &'static str,
    /// The same in words.
    pub(super) promise: &'static str,
    /// Whether each commit waits for the device, so that a stack of numbers is better stored by one.
    pub(super) waits: bool,
    /// Its settings. Everything else is the same in all variants.
    pub(super) configure: fn(Builder) -> Builder,
}

/// All of them; the first has the paper's guarantee.
pub(super) const VARIANTS: [Variant; 5] = [
    Variant {
        name: "NoSync",
        durability: "NoSync",
        promise: "what is written survives any process's death, and an operating-system crash up to the \
                  last flush, 50 ms ago at most; an update is a commit",
        waits: false,
        configure: |builder| builder.durability(Durability::NoSync),
    },
    Variant {
        name: "WriteNoSync",
        durability: "WriteNoSync",
        promise: "the same, with the log handed to the operating system by each commit",
        waits: false,
        configure: |builder| builder.durability(Durability::WriteNoSync),
    },
    Variant {
        name: "Sync",
        durability: "Sync",
        promise: "what is written survives everything: each commit is flushed, and is of all that one \
                  integer put on the stack",
        waits: true,
        configure: |builder| builder.durability(Durability::Sync),
    },
    Variant {
        name: "journal",
        durability: "NoSync",
        promise: "as NoSync; old log and the last checkpoints are kept, and the environment can be taken \
                  back to any commit since the oldest",
        waits: false,
        configure: |builder| builder.durability(Durability::NoSync).journal(Journal::new()),
    },
    Variant {
        name: "sync_io",
        durability: "Sync",
        promise: "as Sync, by direct synchronous writes of the log instead of writes and flushes",
        waits: true,
        configure: |builder| builder.durability(Durability::Sync).sync_io(true),
    },
];

impl Variant {
    /// The one of that name, in whatever case.
    ///
    /// # Errors
    /// A sentence that names those that there are.
    pub(super) fn named(name: &str) -> Result<&'static Variant, String> {
        let known = || VARIANTS.iter().map(|variant| variant.name).collect::<Vec<_>>().join(", ");
        let found = VARIANTS.iter().find(|variant| variant.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("there are no options {name}, only {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names() {
        assert_eq!(Variant::named("writenosync").map(|variant| variant.name), Ok("WriteNoSync"));
        let error = Variant::named("fast").map(|variant| variant.name);
        assert_eq!(
            error,
            Err("there are no options fast, only NoSync, WriteNoSync, Sync, journal, sync_io".to_owned())
        );
    }
}
