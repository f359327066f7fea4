//! Compressors: what makes pages smaller, and what makes them whole again. All that knows of the libraries.
//!
//! What a compressor works in, tables of some tens or hundreds of kilobytes, and the memory between a page
//! and its block, each thread keeps for itself once it has needed them. Bytes from a file may be anything:
//! they are copied out of the block first, since that may be memory which other processes could write to, and
//! made whole into a slice of the length that there has to be. The LZ4 is Rust without `unsafe`; the
//! Zstandard library takes a slice for its window, and asks for no memory that the bytes speak of.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::{Error, Result};

/// How the pages that are written to a volume from now on are compressed: see
/// [`Builder::compression`](crate::Builder::compression).
///
/// ```
/// use sablecat::Compression;
///
/// assert_eq!("zstd:9".parse(), Ok(Compression::Zstd { level: 9 }));
/// assert_eq!(Compression::zstd().to_string(), "zstd:3");
/// assert_eq!("none".parse(), Ok(Compression::None));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// LZ4, with the feature `lz4`: fast; text takes about two thirds to a half of its size.
    Lz4,
    /// Zstandard, with the feature `zstd`: slower; text takes about a half to a third of its size.
    Zstd {
        /// From 1, which is fastest, to 22; those above some 9 take far longer and are hardly smaller.
        level: u8,
    },
}

/// Of a superblock: there may be blocks of LZ4.
const LZ4_MARK: u8 = 0x10;
/// There may be blocks of Zstandard.
const ZSTD_MARK: u8 = 0x20;
/// All such marks.
pub(super) const MARKS: u8 = LZ4_MARK | ZSTD_MARK;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;
const LEVELS: std::ops::RangeInclusive<u8> = 1..=22;
const LEVEL_USUAL: u8 = 3;

impl Compression {
    /// Zstandard with its usual level, 3.
    #[must_use]
    pub const fn zstd() -> Compression {
        Compression::Zstd { level: LEVEL_USUAL }
    }

    /// Its two bytes in files: the compressor and the level.
    pub(super) fn parts(self) -> [u8; 2] {
        match self {
            Compression::None => [0, 0],
            Compression::Lz4 => [LZ4, 0],
            Compression::Zstd { level } => [ZSTD, level],
        }
    }

    /// What two bytes say, if they say anything.
    pub(super) fn of_parts(parts: [u8; 2]) -> Option<Compression> {
        match parts {
            [0, 0] => Some(Compression::None),
            [LZ4, 0] => Some(Compression::Lz4),
            [ZSTD, level] if LEVELS.contains(&level) => Some(Compression::Zstd { level }),
            _ => None,
        }
    }

    /// The number of the compressor in a block.
    pub(super) fn number(self) -> u8 {
        self.parts()[0]
    }

    /// What a superblock says for ever once this was chosen.
    pub(super) fn mark(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => LZ4_MARK,
            Compression::Zstd { .. } => ZSTD_MARK,
        }
    }

    /// That this build can do it, and that there is such a level.
    ///
    /// # Errors
    /// Invalid.
    pub(super) fn check(self) -> Result<()> {
        if let Compression::Zstd { level } = self
            && !LEVELS.contains(&level)
        {
            return Err(Error::invalid(format!(
                "Zstandard with level {level}; there are levels {} to {}",
                LEVELS.start(),
                LEVELS.end()
            )));
        }
        missing(self.mark()).map_or(Ok(()), |name| {
            Err(Error::invalid(format!(
                "compression by {name}, which this build does not have; use a build with the feature `{name}`"
            )))
        })
    }
}

/// Which compressor that blocks may be made by, according to these marks, this build does not have.
pub(super) fn missing(marks: u8) -> Option<&'static str> {
    if marks & LZ4_MARK != 0 && !cfg!(feature = "lz4") {
        Some("lz4")
    } else if marks & ZSTD_MARK != 0 && !cfg!(feature = "zstd") {
        Some("zstd")
    } else {
        None
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Compression, String> {
        let level = |text: &str| text.parse().ok().filter(|level| LEVELS.contains(level));
        match (text, text.strip_prefix("zstd:").map(level)) {
            ("none", _) => Ok(Compression::None),
            ("lz4", _) => Ok(Compression::Lz4),
            ("zstd", _) => Ok(Compression::zstd()),
            (_, Some(Some(level))) => Ok(Compression::Zstd { level }),
            _ => Err(format!(
                "{text:?} is not a compression; there are none, lz4, zstd, and zstd:1 to zstd:22"
            )),
        }
    }
}

thread_local! {
    static IDLE: Cell<Option<Box<Tools>>> = const { Cell::new(None) };
}

/// What a thread compresses with.
#[derive(Default)]
struct Tools {
    /// What came of a page, or is to become one.
    bytes: Vec<u8>,
    #[cfg(feature = "lz4")]
    table: lz4_flex::block::CompressTable,
    #[cfg(feature = "zstd")]
    compressor: Option<(u8, zstd::bulk::Compressor<'static>)>,
    #[cfg(feature = "zstd")]
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

/// The thread's tools, which are given back when this is dropped; or others, if they are lent already.
struct Lent(Option<Box<Tools>>);

impl Lent {
    fn take() -> Lent {
        // A thread that is ending has none any more.
        Lent(Some(IDLE.try_with(Cell::take).ok().flatten().unwrap_or_default()))
    }

    fn tools(&mut self) -> &mut Tools {
        self.0.as_mut().expect("held until dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let tools = self.0.take();
        let _ = IDLE.try_with(|idle| idle.set(tools));
    }
}

/// Compresses a text. If that comes to at most `most` bytes they are shown to `done`, with the text, into
/// which they may be copied.
pub(super) fn compress<R>(
    how: Compression,
    text: &mut [u8],
    most: usize,
    done: impl FnOnce(&mut [u8], &[u8]) -> R,
) -> Option<R> {
    let mut lent = Lent::take();
    let tools = lent.tools();
    let len = tools.compress(how, text, most).filter(|&len| len <= most)?;
    Some(done(text, &tools.bytes[..len]))
}

/// Makes a text whole that stands, compressed, in the first `len` bytes from `at` on of `bytes`, in whose
/// range `to` it is to stand then. It must have that length.
///
/// # Errors
/// A sentence, if the bytes are no such text; what is in `to` means nothing then.
pub(super) fn decompress(
    compressor: u8,
    bytes: &mut [u8],
    from: Range<usize>,
    to: Range<usize>,
) -> std::result::Result<(), String> {
    let mut lent = Lent::take();
    let tools = lent.tools();
    let mut packed = std::mem::take(&mut tools.bytes);
    packed.clear();
    packed.extend_from_slice(&bytes[from]);
    let text = &mut bytes[to];
    let done = tools.decompress(compressor, &packed, text);
    tools.bytes = packed;
    match done? {
        len if len == text.len() => Ok(()),
        len => Err(format!("what is compressed in it has {len} bytes and not {}", text.len())),
    }
}

impl Tools {
    /// Compresses into `bytes`: how many it took; none if it does not get smaller, or cannot be done.
    fn compress(&mut self, how: Compression, text: &[u8], most: usize) -> Option<usize> {
        let room = room_for(how, text.len(), most);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        match how {
            Compression::None => None,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => {
                lz4_flex::block::compress_into_with_table(text, &mut self.bytes, &mut self.table).ok()
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd { level } => {
                if self.compressor.as_ref().is_none_or(|(before, _)| *before != level) {
                    self.compressor = Some((level, zstd::bulk::Compressor::new(i32::from(level)).ok()?));
                }
                let (_, compressor) = self.compressor.as_mut()?;
                compressor.compress_to_buffer(text, &mut self.bytes[..most]).ok()
            }
            #[cfg(not(all(feature = "lz4", feature = "zstd")))]
            _ => None,
        }
    }

    fn decompress(
        &mut self,
        compressor: u8,
        packed: &[u8],
        text: &mut [u8],
    ) -> std::result::Result<usize, String> {
        let wrong = |name: &str, error: String| format!("it is not data that {name} has compressed: {error}");
        match compressor {
            #[cfg(feature = "lz4")]
            LZ4 => lz4_flex::block::decompress_into(packed, text).map_err(|e| wrong("LZ4", e.to_string())),
            #[cfg(feature = "zstd")]
            ZSTD => {
                if self.decompressor.is_none() {
                    let made = zstd::bulk::Decompressor::new();
                    self.decompressor = Some(made.map_err(|e| format!("Zstandard cannot be used: {e}"))?);
                }
                match &mut self.decompressor {
                    Some(decompressor) => decompressor
                        .decompress_to_buffer(packed, text)
                        .map_err(|e| wrong("Zstandard", e.to_string())),
                    None => Err("Zstandard cannot be used".into()),
                }
            }
            other => {
                let _ = (packed, text, wrong);
                Err(format!("it is compressed by compressor {other}, which this build does not have"))
            }
        }
    }
}

/// How much memory it wants to compress a text of a length: LZ4 writes more than the text has, before it is
/// known that it does.
#[cfg(feature = "lz4")]
fn room_for(how: Compression, len: usize, most: usize) -> usize {
    if how == Compression::Lz4 { lz4_flex::block::get_maximum_output_size(len).max(most) } else { most }
}

#[cfg(not(feature = "lz4"))]
fn room_for(_: Compression, _: usize, most: usize) -> usize {
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that are built in, and none.
    pub(crate) fn all() -> Vec<Compression> {
        let all = [Compression::None, Compression::Lz4, Compression::zstd(), Compression::Zstd { level: 19 }];
        all.into_iter().filter(|how| how.check().is_ok()).collect()
    }

    #[test]
    fn what_is_said_in_files_and_by_people_is_read_again() {
        for how in [Compression::None, Compression::Lz4, Compression::zstd(), Compression::Zstd { level: 22 }]
        {
            assert_eq!(Compression::of_parts(how.parts()), Some(how));
            assert_eq!(how.to_string().parse(), Ok(how));
        }
        for parts in [[0, 1], [1, 1], [2, 0], [2, 23], [3, 0], [255, 255]] {
            assert_eq!(Compression::of_parts(parts), None, "{parts:?}");
        }
        for text in ["", "lz5", "zstd:0", "zstd:23", "zstd:", "zstd:-1", "LZ4"] {
            assert!(text.parse::<Compression>().is_err(), "{text}");
        }
        assert!(Compression::Zstd { level: 0 }.check().is_err());
    }

    #[test]
    fn a_text_is_whole_again_and_noise_is_left_alone() {
        let mut noise = vec![0; 16384];
        sablecat_os::random::bytes(&mut noise);
        for how in all().into_iter().filter(|how| *how != Compression::None) {
            let text: Vec<u8> = (0..16384_u32).flat_map(|n| (n / 9).to_le_bytes()).take(16384).collect();
            let mut bytes = text.clone();
            let len = compress(how, &mut bytes, 12_000, |bytes, packed| {
                bytes[..packed.len()].copy_from_slice(packed);
                packed.len()
            });
            let len = len.expect("it is of use");
            assert!(len < 12_000);
            decompress(how.number(), &mut bytes, 0..len, 0..16384).expect("as it was compressed");
            assert_eq!(bytes, text, "{how}");
            assert!(compress(how, &mut noise, 12_000, |_, _| ()).is_none(), "{how}");
            // As much, but neither more nor less.
            for to in [0..16383, 0..100, 0..0] {
                let mut bytes = text.clone();
                compress(how, &mut bytes, 12_000, |bytes, packed| {
                    bytes[..packed.len()].copy_from_slice(packed);
                });
                decompress(how.number(), &mut bytes, 0..len, to).expect_err("longer than that");
            }
        }
    }
}
