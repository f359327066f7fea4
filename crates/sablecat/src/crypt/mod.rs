//! Encryption: what enciphers the blocks of volumes, the records of the log and what large transactions put
//! aside, and where the keys for that are.
//!
//! ```text
//! the user's key ──wraps──▶ data keys 1, 2, ... ──derive──▶ a key of each block, of each run of log records
//! (a file, a variable)      (the key block of the main volume: key_block.rs)
//! ```
//!
//! What is enciphered is authenticated: AES-256-GCM or ChaCha20-Poly1305, 12 bytes of nonce, 16 of tag.
//! *Which key and nonce*, so that no two texts ever have the same two:
//!
//! - a block: the key that HMAC-SHA256 makes of the data key and the block's number, and a nonce of 96 random
//!   bits from the kernel. So nothing is counted that a crash, a restored backup or a copy of the files could
//!   set back; and random nonces, which one key has only some 2^32 of, are spent by writes to one block;
//! - a log record: the key made of the data key and 96 random bits that each opening draws (its *salt*), and
//!   a nonce that counts the records of that opening. Nothing of an earlier opening is gone on with;
//! - a part of a large transaction: a random key of its file, which is nowhere else, one derived for each
//!   run, and the place within the run, written once.
//!
//! Keys are wiped when they are dropped. Memory is not protected otherwise: pages are in the clear in the
//! cache, in the shared memory of processes too.
//!
//! Without the feature `encryption` nothing of this is built, and volumes that are encrypted are refused
//! ([`absent`]).

#[cfg(not(feature = "encryption"))]
mod absent;
#[cfg(feature = "encryption")]
mod aead;
#[cfg(feature = "encryption")]
mod key;
#[cfg(feature = "encryption")]
mod key_block;
#[cfg(feature = "encryption")]
mod keyring;
#[cfg(feature = "encryption")]
mod run_key;

#[cfg(not(feature = "encryption"))]
pub(crate) use absent::{EncryptionKey, Keyring, RunKey, RunKeys};
#[cfg(feature = "encryption")]
pub use key::EncryptionKey;
#[cfg(feature = "encryption")]
pub(crate) use keyring::Keyring;
#[cfg(feature = "encryption")]
pub(crate) use run_key::{RunKey, RunKeys};

use std::fmt::Display;

use crate::error::{Error, ErrorKind};

/// Bytes that enciphering adds to a block, behind its page.
pub(crate) const BLOCK_BYTES: usize = 32;
/// Bytes that enciphering adds to the body of a log record: 24 before it, 16 behind it.
pub(crate) const RECORD_BYTES: usize = 40;
/// Bytes that enciphering adds to a part of a large transaction.
pub(crate) const RUN_BYTES: usize = 16;

/// The cipher of an encrypted environment. Both are authenticated ciphers (AEAD) with keys of 256 bits,
/// equally secure. The first is faster on processors with instructions for it, as nearly all have; the second
/// on those without.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256 in Galois/counter mode.
    #[default]
    Aes256Gcm,
    /// ChaCha20 and Poly1305, as in RFC 8439.
    ChaCha20Poly1305,
}

impl Cipher {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    /// Its number in files, which is never 0.
    pub(crate) fn number(self) -> u8 {
        match self {
            Cipher::Aes256Gcm => 1,
            Cipher::ChaCha20Poly1305 => 2,
        }
    }

    /// The cipher of a number.
    pub(crate) fn of_number(number: u8) -> Option<Cipher> {
        [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].into_iter().find(|cipher| cipher.number() == number)
    }
}

/// What an environment is to be opened with, and made with if it is made.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    pub(crate) key: EncryptionKey,
    /// For an environment that is made.
    pub(crate) cipher: Cipher,
}

/// Why something is not deciphered.
#[derive(Debug)]
#[cfg_attr(not(feature = "encryption"), expect(dead_code, reason = "nothing is deciphered"))]
pub(crate) enum Refused {
    /// It is not what was enciphered.
    Damaged(String),
    /// The key is not there.
    NoKey(String),
    /// There is no telling: the keys could not be read.
    Unread(Error),
}

impl Refused {
    /// The error of a reader that read it at a place.
    pub(crate) fn into_error(self, place: impl Display) -> Error {
        match self {
            Refused::Damaged(why) => Error::corruption(format!("{place}: {why}")),
            Refused::NoKey(why) => Error::new(ErrorKind::EncryptionKey, format!("{place}: {why}")),
            Refused::Unread(error) => error,
        }
    }
}

/// Whether this build can read what is enciphered.
pub(crate) const IS_BUILT_IN: bool = cfg!(feature = "encryption");
