//! Changing the keys of an encrypted environment while it is used.
//!
//! Keys are changed by one process at a time: the one that has the environment for itself, or the one at the
//! entrance of a shared one. Nothing waits for it but processes that enter or leave, and checkpoints.

use super::Core;
use super::attach::enter_to_change;
use crate::crypt::{Cipher, EncryptionKey, Keyring};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::Moving;

/// How often everything is looked through for what is still enciphered with older keys: others may write such
/// blocks, while they learn of the newest one.
const PASSES_MAX: u32 = 8;

/// How an environment is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EncryptionStats {
    /// The cipher.
    pub cipher: Cipher,
    /// The number of the data key that is used for what is written, from 1 on, as far as this process knows.
    pub key: u32,
    /// How many data keys there are, the older ones included.
    pub keys: usize,
}

/// What encrypting again did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EncipherReport {
    /// Pages that were written again.
    pub pages: u64,
    /// Blocks of the last checkpoint that older keys still encrypt: 0, unless they cannot be copied, or there
    /// are processes that cannot decrypt the newest data key.
    pub older: u64,
}

impl Core {
    fn keyring(&self) -> Result<&Keyring> {
        let keys = self.kernel.pages.volume().and_then(|volume| volume.keyring());
        keys.map(|keys| &**keys).ok_or_else(|| {
            Error::new(
                ErrorKind::EncryptionKey,
                "the environment is not encrypted, so it has no key that could be changed; to encrypt it, \
                 copy it into a new environment that is created with a key",
            )
        })
    }

    /// What it is enciphered with, if it is.
    pub(crate) fn encryption(&self) -> Option<EncryptionStats> {
        let keys = self.keyring().ok()?;
        Some(EncryptionStats { cipher: keys.cipher(), key: keys.newest(), keys: keys.count() })
    }

    /// Changes the keys, when nobody else does.
    fn change_keys<T>(&self, change: impl FnOnce(&Keyring) -> Result<T>) -> Result<T> {
        let keys = self.keyring()?;
        let _entrance = enter_to_change(self)?;
        if let Some(volume) = self.kernel.pages.volume() {
            volume.check_names(&*self.config.disk)?;
        }
        let seat = self.kernel.pages.participants.sit()?;
        let changed = self.kernel.pages.change_keys(&seat, || change(keys));
        // Also if it came half way.
        self.kernel.pages.say_keys(keys.block_number());
        changed
    }

    pub(crate) fn rotate_key(&self) -> Result<u32> {
        self.change_keys(Keyring::rotate)
    }

    pub(crate) fn change_encryption_key(&self, to: &EncryptionKey) -> Result<()> {
        self.change_keys(|keys| keys.change(to))
    }

    /// Writes everything again that is enciphered with older keys, by checkpoints.
    pub(crate) fn encipher_anew(&self) -> Result<EncipherReport> {
        // What older keys are is told by the newest: another process may have added that just now.
        self.keyring()?.learn()?;
        let pages = &self.kernel.pages;
        if pages.volume().is_some_and(|volume| volume.superblock().retains()) {
            return Err(Error::new(
                ErrorKind::NotAllowed,
                "the journal retains epochs, which must stay as they were written; encrypt again when it \
                 retains none",
            ));
        }
        let seat = pages.participants.sit()?;
        let mut report = EncipherReport { pages: 0, older: 0 };
        for _ in 0..PASSES_MAX {
            loop {
                report.pages += self.checkpoint_as(&seat, false, Moving::ToKey)?.moved;
                if !pages.is_enciphering_anew() {
                    break;
                }
            }
            report.older = pages.blocks_of_older_keys(&seat)?;
            if report.older == 0 {
                break;
            }
        }
        Ok(report)
    }
}
