//! Changing the keys, by one process at a time.
//!
//! Each change is two key blocks, one after the other (key_block.rs). What is read is written once more
//! before the other berth is written over: the process that wrote it may not have come to its flush.

use zeroize::Zeroizing;

use super::{Keyring, lock, open_all, refuse};
use crate::crypt::EncryptionKey;
use crate::crypt::aead;
use crate::crypt::key_block::{KEYS_MAX, KeyBlock, Wrapped};
use crate::error::{Error, Result};

impl Keyring {
    /// Goes on with the newest key.
    ///
    /// # Errors
    /// `EncryptionKey` if the user's key was changed by another process; those of the file.
    pub(crate) fn learn(&self) -> Result<()> {
        self.current().map(drop)
    }

    /// Adds a data key, and uses it for what is written from now on; its number. Durable when it returns.
    /// Nobody else changes the keys meanwhile.
    ///
    /// # Errors
    /// `Exhausted` if there are as many as there can be; `EncryptionKey` if the user's key was changed by
    /// another process; those of the file: it is there then, or not, and not used.
    pub(crate) fn rotate(&self) -> Result<u32> {
        let _alone = lock(&self.changing);
        let by = lock(&self.by).clone();
        let block = self.current()?;
        let number = block.keys.last().map_or(1, |last| last.number.saturating_add(1));
        if block.keys.len() == KEYS_MAX {
            return Err(Error::exhausted(format!(
                "{}: adding a data key: there are {KEYS_MAX}, as many as an environment can have; copy it \
                 into a new environment",
                self.path.display()
            )));
        }
        self.write_durably(&block)?;
        let mut next = KeyBlock { number: block.number + 1, ..block };
        let wrapped = Wrapped::new(&next, number, &Zeroizing::new(aead::random()), &by);
        next.keys.push(wrapped);
        self.write(&next, &by)?;
        (next.number, next.newest) = (next.number + 1, number);
        self.write(&next, &by)?;
        Ok(number)
    }

    /// Writes the key block once more where it is: the process that wrote it may have died before its flush.
    /// Durable when the file is flushed. The caller is alone.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn write_again(&self) -> Result<()> {
        let (block, _) = KeyBlock::read(&*self.file, &self.path, self.uuid, self.cipher)?;
        block.write_unflushed(&*self.file, &self.path)
    }

    /// Writes all copies of the key block again, of which some could not be read. Durable when it returns.
    /// The caller is alone.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn mend(&self) -> Result<()> {
        let (block, _) = KeyBlock::read(&*self.file, &self.path, self.uuid, self.cipher)?;
        self.write_durably(&block)?;
        self.write_durably(&KeyBlock { number: block.number + 1, ..block })
    }

    /// Changes the user's key; or learns it, if another process has changed it to this one. Durable when it
    /// returns, and the old one opens nothing any more. Nobody else changes the keys meanwhile.
    ///
    /// # Errors
    /// `EncryptionKey` if another process has changed it to another one; those of the file: either key may be
    /// the right one then.
    pub(crate) fn change(&self, to: &EncryptionKey) -> Result<()> {
        let _alone = lock(&self.changing);
        let (block, _) = KeyBlock::read(&*self.file, &self.path, self.uuid, self.cipher)?;
        let before = self.known();
        if let Some(known) = open_all(&block, to, &before.keys) {
            self.write_durably(&block)?;
            *lock(&self.by) = to.clone();
            self.adopt(known);
            // In case the process that changed it came no further than the first write.
            return self.write(&KeyBlock { number: block.number + 1, ..block }, to);
        }
        let by = lock(&self.by).clone();
        let block = self.current()?;
        self.write_durably(&block)?;
        let mut next = KeyBlock { number: block.number + 1, ..block };
        let known = open_all(&next, &by, &before.keys).ok_or_else(|| self.changed())?;
        next.keys = known.keys.iter().map(|key| Wrapped::new(&next, key.number, &key.bytes, to)).collect();
        self.write(&next, to)?;
        *lock(&self.by) = to.clone();
        next.number += 1;
        self.write(&next, to)
    }

    fn changed(&self) -> Error {
        refuse(
            &self.path,
            self.cipher,
            "another process has changed its key; give this process the new key first \
             (Env::change_encryption_key)",
        )
    }

    /// The key block as it is now, if the user's key opens it.
    fn current(&self) -> Result<KeyBlock> {
        let (block, known) = self.look()?;
        self.adopt(known.ok_or_else(|| self.changed())?);
        Ok(block)
    }

    fn write_durably(&self, block: &KeyBlock) -> Result<()> {
        self.watch.get().map_or(Ok(()), |watch| (watch.fence)())?;
        block.write(&*self.file, &self.path)
    }

    fn write(&self, block: &KeyBlock, by: &EncryptionKey) -> Result<()> {
        self.write_durably(block)?;
        if let Some(known) = open_all(block, by, &self.known().keys) {
            self.adopt(known);
        }
        Ok(())
    }
}
