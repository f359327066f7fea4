//! Loading records in bulk: they are the only layer below the newest, which is empty.

use super::filter::{self, FilterHash};
use super::page::{self, Layer, Layers, filters_at};
use super::upkeep::{PLACE_BYTES, form_part, record_bytes};
use crate::access::PageWrite;
use crate::access::btree;
use crate::access::method::Tree;
use crate::error::Result;
use crate::types::{PageId, TreeId};

/// A tree being loaded.
#[derive(Clone)]
pub(crate) struct Load<'t> {
    tree: Tree<'t>,
    page_size: usize,
    begun: Option<Begun<'t>>,
}

#[derive(Clone)]
struct Begun<'t> {
    layer: Layer,
    records: btree::Load<'t>,
    filters: Filters,
    bytes: u64,
}

/// Filters being loaded, and the keys that the next one is for.
#[derive(Clone)]
struct Filters {
    load: btree::Load<'static>,
    first: Vec<u8>,
    hashes: Vec<FilterHash>,
}

impl<'t> Load<'t> {
    pub(crate) fn new(tree: Tree<'t>, page_size: usize) -> Load<'t> {
        Load { tree, page_size, begun: None }
    }

    pub(crate) fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        let begun = match &mut self.begun {
            Some(begun) => begun,
            None => self.begun.insert(Begun::new(writer, &self.tree, self.page_size)?),
        };
        let mut value_bytes = value.len();
        begun.records.push(writer, key, value, |writer, id, value| {
            value_bytes = PLACE_BYTES;
            store(writer, id, value)
        })?;
        begun.bytes += record_bytes(key.len(), value_bytes) as u64;
        begun.filters.push(writer, key, filter::keys_max(self.page_size))
    }

    pub(crate) fn finish<W: PageWrite>(self, writer: &mut W) -> Result<u64> {
        let Some(Begun { mut layer, records, mut filters, bytes }) = self.begun else { return Ok(0) };
        layer.records = records.finish(writer)?;
        layer.bytes = bytes.min(page::SIZE_MAX);
        filters.emit(writer)?;
        filters.load.finish(writer)?;
        let newest = writer.allocate(self.tree.home.volume)?;
        form_part(writer.write(newest)?, newest, self.tree.id);
        let layers = Layers { below: vec![layer], ..Layers::of_newest(newest) };
        layers.write(writer.write(self.tree.root)?, self.tree.root, self.tree.id);
        Ok(layer.records)
    }
}

impl<'t> Begun<'t> {
    fn new<W: PageWrite>(writer: &mut W, tree: &Tree<'t>, page_size: usize) -> Result<Begun<'t>> {
        let layer = super::upkeep::new_layer(writer, tree)?;
        let filters = Filters {
            load: btree::Load::new(filters_at(tree, layer.filters), page_size),
            first: Vec::new(),
            hashes: Vec::new(),
        };
        Ok(Begun { layer, records: btree::Load::new(layer.tree(tree), page_size), filters, bytes: 0 })
    }
}

impl Filters {
    fn push<W: PageWrite>(&mut self, writer: &mut W, key: &[u8], most: usize) -> Result<()> {
        if self.hashes.len() == most {
            self.emit(writer)?;
        }
        if self.hashes.is_empty() {
            self.first = key.to_vec();
        }
        self.hashes.push(FilterHash::of(key));
        Ok(())
    }

    fn emit<W: PageWrite>(&mut self, writer: &mut W) -> Result<()> {
        let filter = filter::make(&std::mem::take(&mut self.hashes));
        self.load.push(writer, &self.first, &filter, |_, _, _| Err(filter::too_long()))
    }
}
