//! Which images the files of an environment in memory know: that which they were loaded from, and what was
//! made of them.
//!
//! ```text
//! <memory>/sablecat.images    sablecat images 1
//!                             <checkpoint's number> <its LSN> <its milliseconds>, hexadecimal digits
//!                             crc32c 0badcafe
//! ```
//!
//! One image is known, or two: the second is written down before it gets its name. An image that is not known
//! is from other processes that went on from the same beginning: on another machine, which has a memory of
//! its own, or under another name, with a copy of the directory. It must not be replaced: what is in it is
//! nowhere else. Where the file is missing or damaged nothing is known, and any image is taken for one's own.

use std::fmt::Write;
use std::path::Path;

use sablecat_os::disk::{Disk, How};

use crate::error::{Error, Result};
use crate::pages::volume::{Superblock, image};

/// What the file is called.
const NAME: &str = "sablecat.images";
const FIRST_LINE: &str = "sablecat images 1\n";
/// Longer than any.
const BYTES_MAX: usize = 512;

/// What tells an image from others of its environment: number, LSN and time of its checkpoint.
type ImageIdentity = [u64; 3];

fn which(image: &Superblock) -> ImageIdentity {
    [image.generation, image.checkpoint.0, image.time_ms]
}

/// Whether files in memory know an image.
///
/// # Errors
/// Those of the disk.
pub(in crate::env) fn is_known(disk: &dyn Disk, memory: &Path, image: &Superblock) -> Result<bool> {
    let path = memory.join(NAME);
    let io = |e| Error::io("reading", &path, e);
    if !disk.exists(&path).map_err(|e| Error::io("looking for", &path, e))? {
        return Ok(true);
    }
    let file = disk.open(&path, How { read_only: true, ..How::default() }).map_err(io)?;
    let mut bytes = [0; BYTES_MAX];
    let length = file.read_at(&mut bytes, 0).map_err(io)?;
    let known = str::from_utf8(&bytes[..length]).ok().and_then(decode);
    Ok(known.is_none_or(|known| known.contains(&which(image))))
}

/// Has files in memory know these images, and no others. What is written belongs to the owner of the file
/// `like`.
///
/// # Errors
/// Those of the disk.
pub(in crate::env) fn know(
    disk: &dyn Disk,
    memory: &Path,
    images: &[&Superblock],
    like: &Path,
) -> Result<()> {
    let path = memory.join(NAME);
    let unfinished = image::unfinished(&path);
    let text = encode(images.iter().map(|image| which(image)));
    let file = image::begin(disk, &unfinished, like)?;
    file.write_at(text.as_bytes(), 0).map_err(|e| Error::io("writing", &unfinished, e))?;
    image::put_in_place(disk, &unfinished, &path)
}

fn encode(images: impl Iterator<Item = ImageIdentity>) -> String {
    let mut text = FIRST_LINE.to_owned();
    for [generation, checkpoint, time] in images {
        writeln!(text, "{generation:x} {checkpoint:x} {time:x}").expect("a String takes all");
    }
    let sum = crc32c::crc32c(text.as_bytes());
    writeln!(text, "crc32c {sum:08x}").expect("a String takes all");
    text
}

/// The images that a file tells of; none if it is damaged.
fn decode(text: &str) -> Option<Vec<ImageIdentity>> {
    let (body, sum) = text.split_at_checked(text.rfind("crc32c ")?)?;
    let sum = sum.strip_prefix("crc32c ")?.strip_suffix('\n')?;
    if u32::from_str_radix(sum, 16) != Ok(crc32c::crc32c(body.as_bytes())) {
        return None;
    }
    let image = |line: &str| {
        let numbers = line.split(' ').map(|number| u64::from_str_radix(number, 16).ok());
        numbers.collect::<Option<Vec<_>>>()?.try_into().ok()
    };
    body.strip_prefix(FIRST_LINE)?.lines().map(image).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_not() {
        for images in [vec![[7, 0xabc, 1]], vec![[1, 2, 3], [u64::MAX, 0, u64::MAX]]] {
            let text = encode(images.iter().copied());
            assert!(text.len() <= BYTES_MAX);
            assert_eq!(decode(&text).as_ref(), Some(&images));
            for at in 0..text.len() {
                assert_eq!(decode(&text[..at]), None, "{at} bytes");
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1;
                let read = decode(str::from_utf8(&bytes).unwrap());
                assert!(read.is_none(), "byte {at}: {read:?}");
            }
        }
    }
}
