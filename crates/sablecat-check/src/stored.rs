//! How the environments are stored that storms, steps and failing calls work on: compressed, or encrypted.
//! For the whole process, and those that it starts.
//!
//! The random checks have this among their settings.

use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{Builder, Compression, EncryptionKey};

/// What a command is told to choose by.
const COMPRESSION: [&str; 2] = ["--compression", "lz4"];
const ENCRYPTION: &str = "--encryption";

static IS_COMPRESSED: AtomicBool = AtomicBool::new(false);
static IS_ENCRYPTED: AtomicBool = AtomicBool::new(false);

/// Smaller pages cannot be.
const COMPRESSED_PAGE_BYTES: usize = 8192;

/// Takes the choice out of a command's words.
pub fn take_from(words: &mut Vec<String>) {
    while let Some(at) = words.windows(2).position(|two| two == COMPRESSION) {
        words.drain(at..at + 2);
        IS_COMPRESSED.store(true, Ordering::SeqCst);
    }
    while let Some(at) = words.iter().position(|word| word == ENCRYPTION) {
        words.remove(at);
        IS_ENCRYPTED.store(true, Ordering::SeqCst);
    }
}

/// Whether anything was chosen.
pub fn is_chosen() -> bool {
    is_compressed() || is_encrypted()
}

/// The words by which a process that is started chooses the same.
pub fn words() -> Vec<&'static str> {
    let compression = is_compressed().then_some(COMPRESSION).into_iter().flatten();
    compression.chain(is_encrypted().then_some(ENCRYPTION)).collect()
}

fn is_compressed() -> bool {
    IS_COMPRESSED.load(Ordering::SeqCst)
}

/// Whether environments are encrypted.
pub fn is_encrypted() -> bool {
    IS_ENCRYPTED.load(Ordering::SeqCst)
}

/// With the key of an environment that is encrypted.
pub fn keyed(builder: Builder) -> Builder {
    if is_encrypted() { builder.encryption_key(EncryptionKey::from_bytes(&[7; 32])) } else { builder }
}

/// Of environments that have pages of so many bytes, or of as many as compressed ones have, and volumes of
/// these names.
pub fn compressed(builder: Builder, page_bytes: usize, volumes: &[&str]) -> Builder {
    if !is_compressed() {
        return builder.page_size(page_bytes);
    }
    let builder = builder.page_size(COMPRESSED_PAGE_BYTES).compression(Compression::Lz4);
    volumes.iter().fold(builder, |builder, &volume| builder.volume_compression(volume, Compression::Lz4))
}
