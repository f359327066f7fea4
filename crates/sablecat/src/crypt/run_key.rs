//! Keys of what a large transaction puts aside: of its file, and of each run in that.
//!
//! Nobody else reads it, now or later, so the file's key is random and nowhere but in memory. A place of the
//! file is used again by other runs; each has another key.

use std::fmt;

use sablecat_os::atomic::{AtomicU64, Ordering};
use zeroize::Zeroizing;

use super::aead::{self, Aead, SecretBytes, TAG_BYTES};
use super::{Cipher, RUN_BYTES};

/// The keys of one file.
pub(crate) struct RunKeys {
    cipher: Cipher,
    key: SecretBytes,
    runs: AtomicU64,
}

/// The key of one run.
pub(crate) struct RunKey(Aead);

const _: () = assert!(RUN_BYTES == TAG_BYTES);

impl fmt::Debug for RunKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunKeys").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunKey(not shown)")
    }
}

impl RunKeys {
    /// Those of a new file.
    pub(crate) fn random(cipher: Cipher) -> Option<RunKeys> {
        Some(RunKeys { cipher, key: Zeroizing::new(aead::random()), runs: AtomicU64::new(0) })
    }

    /// That of a new run.
    pub(crate) fn next(&self) -> RunKey {
        // Relaxed: only uniqueness matters.
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        RunKey(Aead::new(self.cipher, &aead::derive(&self.key, b"run", &run.to_le_bytes())))
    }
}

fn nonce(place: u64) -> [u8; aead::NONCE_BYTES] {
    let mut nonce = [0; aead::NONCE_BYTES];
    nonce[4..].copy_from_slice(&place.to_le_bytes());
    nonce
}

impl RunKey {
    /// Enciphers the bytes from `from` on, which begin at a place in the run where nothing was written yet,
    /// and adds their tag.
    pub(crate) fn seal(&self, place: u64, bytes: &mut Vec<u8>, from: usize) {
        let tag = self.0.seal(&nonce(place), &[], &mut bytes[from..]);
        bytes.extend_from_slice(&tag);
    }

    /// Deciphers what was sealed at a place in the run, and takes the tag away. False if it is not that.
    #[must_use]
    pub(crate) fn open(&self, place: u64, bytes: &mut Vec<u8>) -> bool {
        let Some((text, tag)) = bytes.split_last_chunk_mut::<TAG_BYTES>() else { return false };
        let tag = *tag;
        let opened = self.0.open(&nonce(place), &[], text, &tag);
        bytes.truncate(bytes.len() - TAG_BYTES);
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_opened_in_its_run_and_place_alone() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let keys = RunKeys::random(cipher).expect("built in");
            let (one, other) = (keys.next(), keys.next());
            let mut bytes = b"....a part".to_vec();
            one.seal(100, &mut bytes, 4);
            assert!(bytes.starts_with(b"....") && !bytes.ends_with(b"a part"));
            let sealed = bytes.split_off(4);
            let mut opened = sealed.clone();
            assert!(one.open(100, &mut opened));
            assert_eq!(opened, b"a part");
            assert!(!one.open(101, &mut sealed.clone()) && !other.open(100, &mut sealed.clone()));
            assert!(!one.open(100, &mut vec![0; 3]));
        }
    }
}
