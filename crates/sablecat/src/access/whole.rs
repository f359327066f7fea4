//! What is done to a database as a whole, in steps: loading it and freeing its pages, by any method.

#[cfg(feature = "seam")]
use super::flat;
use super::{PageWrite, btree, hash, lsm};
use crate::error::Result;
use crate::types::{PageId, TreeId};

/// A database being loaded in bulk.
#[allow(clippy::large_enum_variant, reason = "there is one for as long as a load takes")]
#[derive(Clone)]
pub(crate) enum Load<'a> {
    Btree(btree::Load<'a>),
    Hash(hash::Load<'a>),
    Lsm(lsm::Load<'a>),
    #[cfg(feature = "seam")]
    Flat(flat::Load<'a>),
}

impl Load<'_> {
    /// Takes the next record, whose value `store` stores if it is long. Writes pages through `writer` as they
    /// fill; they are complete then.
    pub(crate) fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        match self {
            Load::Btree(load) => load.push(writer, key, value, store),
            Load::Hash(load) => load.push(writer, key, value, store),
            Load::Lsm(load) => load.push(writer, key, value, store),
            #[cfg(feature = "seam")]
            Load::Flat(load) => load.push(writer, key, value, store),
        }
    }

    /// Writes what is left, and the root; says how many records there were. They are there once the writer
    /// has published the root.
    pub(crate) fn finish<W: PageWrite>(self, writer: &mut W) -> Result<u64> {
        match self {
            Load::Btree(load) => load.finish(writer),
            Load::Hash(load) => load.finish(writer),
            Load::Lsm(load) => load.finish(writer),
            #[cfg(feature = "seam")]
            Load::Flat(load) => load.finish(writer),
        }
    }
}

/// The pages of a database being freed, some at a time, in any state that an earlier freeing left them in.
pub(crate) enum Freeing<'a> {
    Btree(btree::Freeing<'a>),
    Hash(hash::Freeing<'a>),
    Lsm(lsm::Freeing<'a>),
    #[cfg(feature = "seam")]
    Flat(flat::Freeing<'a>),
}

impl Freeing<'_> {
    /// Frees a page or some, `most` about. False, with nothing freed, if there is nothing but the root.
    pub(crate) fn step<W: PageWrite>(&mut self, writer: &mut W, most: usize) -> Result<bool> {
        match self {
            Freeing::Btree(freeing) => freeing.step(writer, most),
            Freeing::Hash(freeing) => freeing.step(writer, most),
            Freeing::Lsm(freeing) => freeing.step(writer, most),
            #[cfg(feature = "seam")]
            Freeing::Flat(freeing) => freeing.step(writer, most),
        }
    }
}
