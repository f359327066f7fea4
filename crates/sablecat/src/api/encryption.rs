//! The keys of an encrypted environment: giving one, and changing them while it is used.

use super::{Builder, Env};
use crate::crypt::{Cipher, Encryption, EncryptionKey};
use crate::env::EncipherReport;
use crate::error::Result;

impl Builder {
    /// The key of an encrypted environment. If it is given, a new environment is created encrypted. Each
    /// process must give it. Default: none, and a new environment is not encrypted.
    ///
    /// Everything in the environment's files is encrypted and authenticated: pages, the map of pages, the log
    /// and its journal, and the files of large transactions. Not hidden are: how large files are and how much
    /// is written when; and what the superblock says, which is needed to open the environment: its sizes and
    /// positions in the log, directories, and the names and key prefixes in rules of
    /// [`place`](Builder::place). Memory is not encrypted. That includes the file in `/dev/shm` that
    /// processes share; only users who can read the environment's files can read it.
    ///
    /// All of an environment is encrypted, or none of it, from its creation on. To encrypt one that is not,
    /// copy it ([`Follower`](crate::Follower), `sablecat backup`) into a new one with a key. Pages have 32
    /// bytes less than without encryption: with pages of 4 KiB a key may have 4 bytes less before it takes
    /// more pages and time, or, where a comparator orders keys, before it is too long.
    ///
    /// Opening fails with [`EncryptionKey`](crate::ErrorKind::EncryptionKey) if the environment is encrypted
    /// and the key is missing or another, and if it is not and a key is given.
    pub fn encryption_key(mut self, key: EncryptionKey) -> Self {
        let cipher = self.config.encryption.map(|before| before.cipher).unwrap_or_default();
        self.config.encryption = Some(Encryption { key, cipher });
        self
    }

    /// As [`Builder::encryption_key`], with the cipher of a new environment; an existing one keeps its
    /// cipher. Default: [`Cipher::Aes256Gcm`].
    pub fn encryption(mut self, key: EncryptionKey, cipher: Cipher) -> Self {
        self.config.encryption = Some(Encryption { key, cipher });
        self
    }
}

impl Env {
    /// Adds a data key and returns its number. Everything that is written from now on, by all processes that
    /// have the environment open, is encrypted with it. What was written before stays as it is and readable:
    /// see [`Env::encipher_anew`]. Durable when it returns. Only processes that open or close the environment
    /// wait for it.
    ///
    /// The environment keeps its data keys, encrypted (wrapped) with the [`EncryptionKey`], for as long as it
    /// exists. It can have 56.
    ///
    /// # Errors
    /// `EncryptionKey` if the environment is not encrypted, or its key was changed by another process and
    /// this one was not [told](Env::change_encryption_key); `Exhausted` if there are as many as there can be;
    /// `ReadOnly`, `Io`, `DiskFull`: a key may have been added then, and is not used.
    pub fn rotate_key(&self) -> Result<u32> {
        self.core().to_write()?.rotate_key()
    }

    /// Changes the key of the environment at once, without encrypting any data again: the old key does not
    /// open the environment any more. Durable when it returns; keep both keys until then. Other processes
    /// that have the environment open go on with the data keys that they have. If a data key is added later,
    /// each of them must be given the new key too, with this same call: before that, it cannot read what was
    /// encrypted with the added data key.
    ///
    /// A person with the old key and an old copy of the files can still open the copy, and, with the data
    /// keys from that copy, can also read what is encrypted with these data keys later. [`Env::rotate_key`]
    /// and [`Env::encipher_anew`] end that.
    ///
    /// # Errors
    /// `EncryptionKey` if the environment is not encrypted, or another process has changed its key to another
    /// one; `ReadOnly`; `Io`: then either key may be the one that opens it.
    pub fn change_encryption_key(&self, to: &EncryptionKey) -> Result<()> {
        self.core().to_write()?.change_encryption_key(to)
    }

    /// Encrypts again, with the newest data key, what older data keys encrypt: by a series of checkpoints,
    /// while others go on reading and writing. Reads everything, and needs room on the disk for what it
    /// copies until a checkpoint is done. If it is killed, the environment is sound and partly encrypted
    /// again; call it again. Free space in the files keeps what was written there until it is used again, and
    /// so does old log in a journal.
    ///
    /// # Errors
    /// As [`Env::checkpoint`]; `EncryptionKey` if the environment is not encrypted, or its key was changed by
    /// another process and this one was not [told](Env::change_encryption_key); `NotAllowed` while a journal
    /// retains epochs.
    pub fn encipher_anew(&self) -> Result<EncipherReport> {
        self.core().to_write()?.encipher_anew()
    }
}
