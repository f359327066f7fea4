//! What a simulated file holds: sparse, and cheap to copy.
//!
//! Bytes are kept in chunks of 4096 that copies share until one of them writes, so that a crash state of a
//! disk costs one reference count a chunk. A chunk that is not there reads as zero and takes no space.
//!
//! Invariant: whatever lies beyond the length is zero, so that growing again shows no old bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The unit of sharing and of space.
pub(super) const CHUNK: u64 = 4096;

type Chunk = Arc<[u8; CHUNK as usize]>;

/// What preallocated chunks share until they are written.
static ZEROES: LazyLock<Chunk> = LazyLock::new(|| Arc::new([0; CHUNK as usize]));

#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    len: u64,
    chunks: BTreeMap<u64, Chunk>,
}

impl Bytes {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Copies bytes out and says how many there were.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let count = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        for piece in pieces(offset, count) {
            let out = &mut buf[piece.start..piece.start + piece.len];
            match self.chunks.get(&piece.chunk) {
                Some(chunk) => out.copy_from_slice(&chunk[piece.within..piece.within + piece.len]),
                None => out.fill(0),
            }
        }
        count
    }

    /// Copies bytes in, growing as needed.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for piece in pieces(offset, bytes.len()) {
            let chunk = self.chunks.entry(piece.chunk).or_insert_with(|| ZEROES.clone());
            Arc::make_mut(chunk)[piece.within..piece.within + piece.len]
                .copy_from_slice(&bytes[piece.start..piece.start + piece.len]);
        }
        if !bytes.is_empty() {
            self.len = self.len.max(offset + bytes.len() as u64);
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.chunks.split_off(&len.div_ceil(CHUNK));
            if let Some(last) = self.chunks.get_mut(&(len / CHUNK)) {
                Arc::make_mut(last)[(len % CHUNK) as usize..].fill(0);
            }
        }
        self.len = len;
    }

    /// Takes space for a range, growing as needed.
    pub(super) fn allocate(&mut self, offset: u64, len: u64) {
        for chunk in chunks_of(offset, len) {
            self.chunks.entry(chunk).or_insert_with(|| ZEROES.clone());
        }
        self.len = self.len.max(offset + len);
    }

    /// Makes a range zero, as far as there are bytes, and gives up the space of the whole chunks in it.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let len = len.min(self.len.saturating_sub(offset));
        for piece in pieces(offset, len as usize) {
            if piece.len as u64 == CHUNK {
                self.chunks.remove(&piece.chunk);
            } else if let Some(chunk) = self.chunks.get_mut(&piece.chunk) {
                Arc::make_mut(chunk)[piece.within..piece.within + piece.len].fill(0);
            }
        }
    }

    /// Gives up the space of the whole chunks of a range in which there is nothing but zeros.
    pub(super) fn give_up_zeros(&mut self, offset: u64, len: u64) {
        for piece in pieces(offset, len as usize).filter(|piece| piece.len as u64 == CHUNK) {
            if self.chunks.get(&piece.chunk).is_some_and(|chunk| chunk.iter().all(|&byte| byte == 0)) {
                self.chunks.remove(&piece.chunk);
            }
        }
    }

    /// Where at or above an offset space is taken.
    pub(super) fn next_data(&self, offset: u64) -> Option<u64> {
        let (chunk, _) = self.chunks.range(offset / CHUNK..).next()?;
        Some(offset.max(chunk * CHUNK)).filter(|&at| at < self.len)
    }

    /// Bytes of space taken.
    pub(super) fn space(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }

    /// How much of a range, from its start, can be written by taking no more than `room` bytes of space.
    pub(super) fn fitting(&self, offset: u64, len: u64, mut room: u64) -> u64 {
        for chunk in chunks_of(offset, len) {
            if !self.chunks.contains_key(&chunk) {
                if room < CHUNK {
                    return (chunk * CHUNK).saturating_sub(offset);
                }
                room -= CHUNK;
            }
        }
        len
    }
}

/// The chunks that a range touches.
fn chunks_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 { 0..0 } else { offset / CHUNK..(offset + len).div_ceil(CHUNK) }
}

/// The part of a transfer that lies in one chunk.
struct Piece {
    chunk: u64,
    /// Where in the chunk it starts.
    within: usize,
    /// Where in the caller's buffer it starts.
    start: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let end = offset + len as u64;
    chunks_of(offset, len as u64).map(move |chunk| {
        let from = offset.max(chunk * CHUNK);
        let to = end.min((chunk + 1) * CHUNK);
        Piece {
            chunk,
            within: (from - chunk * CHUNK) as usize,
            start: (from - offset) as usize,
            len: (to - from) as usize,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
        Allocate(u64, u64),
        Punch(u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let offset = 0..5 * CHUNK;
        let step = prop_oneof![
            (offset.clone(), prop::collection::vec(any::<u8>(), 0..9000))
                .prop_map(|(at, bytes)| Step::Write(at, bytes)),
            offset.clone().prop_map(Step::SetLen),
            (offset.clone(), 0..2 * CHUNK).prop_map(|(at, len)| Step::Allocate(at, len)),
            (offset, 0..3 * CHUNK).prop_map(|(at, len)| Step::Punch(at, len)),
        ];
        prop::collection::vec(step, 0..12)
    }

    proptest! {
        #[test]
        fn sparse_bytes_behave_as_a_plain_vector(steps in steps()) {
            let mut model: Vec<u8> = Vec::new();
            let mut bytes = Bytes::default();
            let mut copies = Vec::new();
            for step in steps {
                copies.push((bytes.clone(), model.clone()));
                match step {
                    Step::Write(at, new) => {
                        bytes.write(at, &new);
                        let end = at as usize + new.len();
                        if !new.is_empty() {
                            model.resize(model.len().max(end), 0);
                            model[at as usize..end].copy_from_slice(&new);
                        }
                        prop_assert_eq!(
                            bytes.fitting(at, new.len() as u64, 0),
                            new.len() as u64,
                            "space stays taken"
                        );
                    }
                    Step::SetLen(len) => {
                        bytes.set_len(len);
                        model.resize(len as usize, 0);
                    }
                    Step::Punch(at, len) => {
                        bytes.punch(at, len);
                        let end = model.len().min((at + len) as usize);
                        model.get_mut(at as usize..end).into_iter().for_each(|hole| hole.fill(0));
                        let whole = (end as u64 / CHUNK).saturating_sub(at.div_ceil(CHUNK));
                        prop_assert!(
                            whole == 0
                                || bytes.fitting(at.next_multiple_of(CHUNK), whole * CHUNK, 0) == 0,
                            "space is given up"
                        );
                    }
                    Step::Allocate(at, len) => {
                        bytes.allocate(at, len);
                        model.resize(model.len().max((at + len) as usize), 0);
                        prop_assert_eq!(bytes.fitting(at, len, 0), len);
                    }
                }
                copies.push((bytes.clone(), model.clone()));
            }
            for (bytes, model) in copies {
                prop_assert_eq!(bytes.len(), model.len() as u64);
                let mut out = vec![9; model.len() + 10];
                prop_assert_eq!(bytes.read(&mut out, 0), model.len());
                prop_assert_eq!(&out[..model.len()], &model[..]);
                let from = model.len() / 3;
                prop_assert_eq!(bytes.read(&mut out, from as u64), model.len() - from);
                prop_assert_eq!(&out[..model.len() - from], &model[from..]);
            }
        }
    }

    #[test]
    fn space_is_counted_in_chunks_and_holes_take_none() {
        let mut bytes = Bytes::default();
        bytes.set_len(100 * CHUNK);
        assert_eq!(bytes.space(), 0);
        bytes.write(10 * CHUNK - 1, &[1, 1]);
        assert_eq!(bytes.space(), 2 * CHUNK);
        assert_eq!(
            bytes.fitting(8 * CHUNK + 1, 4 * CHUNK, CHUNK),
            3 * CHUNK - 1,
            "up to the second missing chunk"
        );
        bytes.set_len(10 * CHUNK);
        assert_eq!(bytes.space(), CHUNK);
    }
}
