//! The keys of an encrypted environment: giving one, and changing them while it is used.

use super::{Builder, Env};
use crate::crypt::{Cipher, Encryption, EncryptionKey};
use crate::env::EncipherReport;
use crate::error::Result;

impl Builder {
    /// The key of an encrypted environment; and a new environment is encrypted, if one is given. Each process
    /// brings it. Default: none, and a new environment is not encrypted.
    ///
    /// Everything in the environment's files is enciphered and authenticated: pages, the map of pages, the
    /// log and its journal, and what large transactions put aside. Not hidden are: how large files are and
    /// how much is written when; and what the superblock says, for who opens the environment: its sizes and
    /// positions in the log, directories, and the names and key prefixes in rules of
    /// [`place`](Builder::place). Memory is not enciphered, the file in `/dev/shm` that processes share
    /// included, which only those can read who can read the environment's files.
    ///
    /// All of an environment is encrypted, or nothing of it, from its making on. To encrypt one that is not,
    /// copy it ([`Follower`](crate::Follower), `sablecat backup`) into a new one with a key. Pages have 32
    /// bytes less than without: with pages of 4 KiB a key may have 4 bytes less before it takes more pages
    /// and time, or where a comparator orders keys, before it is too long.
    ///
    /// Opening fails with [`EncryptionKey`](crate::ErrorKind::EncryptionKey) if the environment is encrypted
    /// and the key is missing or another, and if it is not and a key is given.
    pub fn encryption_key(mut self, key: EncryptionKey) -> Self {
        let cipher = self.config.encryption.map(|before| before.cipher).unwrap_or_default();
        self.config.encryption = Some(Encryption { key, cipher });
        self
    }

    /// The same, and how a new environment is enciphered; an existing one keeps its cipher. Default:
    /// [`Cipher::Aes256Gcm`].
    pub fn encryption(mut self, key: EncryptionKey, cipher: Cipher) -> Self {
        self.config.encryption = Some(Encryption { key, cipher });
        self
    }
}

impl Env {
    /// Adds a data key, which everything is enciphered with that is written from now on, by all processes
    /// that have the environment open. Its number. What is there stays as it is and readable: see
    /// [`Env::encipher_anew`]. Durable when it returns; nobody waits for it but who opens or closes the
    /// environment.
    ///
    /// The data keys are kept in the environment, wrapped by the [`EncryptionKey`], for as long as it is
    /// there, and it can have 56.
    ///
    /// # Errors
    /// `EncryptionKey` if the environment is not encrypted, or its key was changed by another process and
    /// this one was not [told](Env::change_encryption_key); `Exhausted` if there are as many as there can be;
    /// `ReadOnly`, `Io`, `DiskFull`: a key may have been added then, and is not used.
    pub fn rotate_key(&self) -> Result<u32> {
        self.core().to_write()?.rotate_key()
    }

    /// Changes the key of the environment at once, without enciphering any data anew: the one so far opens
    /// nothing any more. Durable when it returns; keep both until then. Others who have the environment open
    /// go on with the data keys that they have. If a data key is added later, they need to be told the new
    /// key as well, by the same call, and cannot read what was enciphered with that one before.
    ///
    /// Who had the former key and a copy of the files can still open the copy; and if he took the data keys
    /// out of it, also what is enciphered with them later. [`Env::rotate_key`] and [`Env::encipher_anew`]
    /// end that.
    ///
    /// # Errors
    /// `EncryptionKey` if the environment is not encrypted, or another process has changed its key to another
    /// one; `ReadOnly`; `Io`: it may be either key then that opens it.
    pub fn change_encryption_key(&self, to: &EncryptionKey) -> Result<()> {
        self.core().to_write()?.change_encryption_key(to)
    }

    /// Writes again what is enciphered with older data keys, by a series of checkpoints, while others go on
    /// reading and writing. Reads everything, and needs room on the disk for what it copies until a
    /// checkpoint is done. Killed in the middle it leaves an environment that is partly enciphered anew, in
    /// order; do it again. Places that are free keep what was written there until they are used again, and so
    /// does old log in a journal.
    ///
    /// # Errors
    /// As [`Env::checkpoint`]; `EncryptionKey` if the environment is not encrypted, or its key was changed by
    /// another process and this one was not [told](Env::change_encryption_key); `NotAllowed` while a journal
    /// retains epochs.
    pub fn encipher_anew(&self) -> Result<EncipherReport> {
        self.core().to_write()?.encipher_anew()
    }
}
