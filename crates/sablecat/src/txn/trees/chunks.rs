//! A write set's way into the log: as one record, or in chunks and a record that names them.

use super::Trees;
use crate::access::KeyBounds;
use crate::error::Result;
use crate::log::{RecordBuilder, RecordKind, operation_bytes_max, range_bytes_max};
use crate::pages::LocalParticipant;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::pending::write_set::WriteSet;
use crate::types::{Lsn, TreeId};

impl Trees {
    /// The log record of a write set. When it is too long for the ring, it is logged in chunks now, and the
    /// record only names them. Of temporary trees there is nothing in it.
    pub(in crate::txn) fn write_record<'a>(
        &'a self,
        writes: &WriteSet,
        record: &mut RecordBuilder,
        me: &'a LocalParticipant,
    ) -> Result<Option<ChainHold<'a>>> {
        if !writes.is_logged() {
            record.begin(RecordKind::Filler);
            record.finish_body();
            return Ok(None);
        }
        record.begin(RecordKind::Commit);
        let most = self.log.record_bytes_max() - RecordBuilder::OVERHEAD_MAX;
        // What the write set takes in memory is at least what its records take in the log.
        if writes.memory() <= most && !writes.has_ranges() || fits(writes, most) {
            for (tree, records) in writes.logged_trees() {
                // What is set in a range comes after it.
                records.removed().for_each(|range| record.delete_range(tree.id, range));
                for (key, value) in records.iter() {
                    match value {
                        Some(value) => record.put(tree.id, key, value),
                        None => record.delete(tree.id, key),
                    }
                }
            }
            record.finish_body();
            return Ok(None);
        }
        self.write_chunks(writes, record, me).map(Some)
    }

    #[cold]
    #[inline(never)]
    fn write_chunks<'a>(
        &'a self,
        writes: &WriteSet,
        record: &mut RecordBuilder,
        me: &'a LocalParticipant,
    ) -> Result<ChainHold<'a>> {
        let hold = ChainHold::begin(me, self.log.tail());
        let mut chunks = Chunks::begin(self, record, me);
        for (tree, records) in writes.logged_trees() {
            for range in records.removed() {
                chunks.add_range(tree.id, range)?;
            }
            let mut all = records.after(None)?;
            while let Some((key, value)) = all.next()? {
                chunks.add(tree.id, &key, value.as_deref())?;
            }
        }
        chunks.finish()?;
        if writes.logged_trees().any(|(_, records)| records.has_ranges()) {
            record.says_ranges();
        }
        Ok(hold)
    }
}

/// Whether the record of a write set takes so many bytes at most, or less.
#[cold]
fn fits(writes: &WriteSet, most: usize) -> bool {
    let records = writes.logged_trees().flat_map(|(_, records)| records.iter());
    let bytes = records.map(|(key, value)| operation_bytes_max(key.len(), value.map_or(0, <[u8]>::len)));
    let ranges = writes.logged_trees().flat_map(|(_, records)| records.removed());
    !writes.is_spilled() && bytes.chain(ranges.map(range_bytes_max)).sum::<usize>() <= most
}

/// A write set on its way to the log in chunks: one chunk at a time is put together, so a value is never
/// copied whole. A chunk may end anywhere, also within a key.
struct Chunks<'a, 'r> {
    trees: &'a Trees,
    me: &'a LocalParticipant,
    record: &'r mut RecordBuilder,
    /// An operation up to its value.
    head: RecordBuilder,
    chain: u64,
    chunks: u64,
    bytes: u64,
}

impl<'a, 'r> Chunks<'a, 'r> {
    fn begin(trees: &'a Trees, record: &'r mut RecordBuilder, me: &'a LocalParticipant) -> Chunks<'a, 'r> {
        let chain = trees.log.new_chain();
        record.begin_chunk(chain);
        Chunks { trees, me, record, head: RecordBuilder::new(), chain, chunks: 0, bytes: 0 }
    }

    fn add(&mut self, tree: TreeId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let mut head = std::mem::take(&mut self.head);
        head.begin(RecordKind::Commit);
        match value {
            Some(value) => head.begin_put(tree, key, value.len()),
            None => head.delete(tree, key),
        }
        self.add_bytes(head.body())?;
        self.head = head;
        self.add_bytes(value.unwrap_or_default())
    }

    fn add_range(&mut self, tree: TreeId, range: KeyBounds<'_>) -> Result<()> {
        let mut head = std::mem::take(&mut self.head);
        head.begin(RecordKind::Commit);
        head.delete_range(tree, range);
        self.add_bytes(head.body())?;
        self.head = head;
        Ok(())
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(self.trees.log.record_bytes_max() / 4) {
            self.record.raw(part);
            self.log_if_full()?;
        }
        Ok(())
    }

    fn log_if_full(&mut self) -> Result<()> {
        if self.record.len() > self.trees.log.record_bytes_max() / 2 { self.log() } else { Ok(()) }
    }

    fn log(&mut self) -> Result<()> {
        self.bytes += self.record.chunk_bytes() as u64;
        self.chunks += 1;
        self.record.finish_body();
        // A publish of no pages: it appends the record.
        let changes = ChangedPages::new(&self.trees.pages, self.me, Lsn(0));
        publish::publish(&self.trees.pages, &self.trees.log, changes, self.record, |_| Ok(()))?;
        self.record.begin_chunk(self.chain);
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.log()?;
        self.record.commit_chunked(self.chain, self.chunks, self.bytes);
        Ok(())
    }
}

/// Keeps the log from the first chunk of a large write set on until the write set is committed or given up.
pub(in crate::txn) struct ChainHold<'a> {
    me: &'a LocalParticipant,
}

impl<'a> ChainHold<'a> {
    /// Announces that chunks will be logged from `tail` on; before the first of them is.
    pub(in crate::txn) fn begin(me: &'a LocalParticipant, tail: Lsn) -> ChainHold<'a> {
        me.slot().begin_chain(tail);
        ChainHold { me }
    }
}

impl Drop for ChainHold<'_> {
    fn drop(&mut self) {
        self.me.slot().end_chain();
    }
}
