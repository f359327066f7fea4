//! What stands for keys in a build without encryption: there are none.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use sablecat_os::disk::File;

use super::{Cipher, Encryption, Refused};
use crate::error::Result;

/// A user's key, which nobody can have.
#[derive(Clone, Debug)]
pub(crate) struct EncryptionKey(Infallible);

/// Keys of an environment, which none has.
#[derive(Debug)]
pub(crate) struct Keyring(Infallible);

/// The key of a run, which none has.
#[derive(Debug)]
pub(crate) struct RunKey(Infallible);

/// The key of a file of runs, which none has.
#[derive(Debug)]
pub(crate) struct RunKeys(Infallible);

impl Keyring {
    pub(crate) fn create(encryption: &Encryption, _: [u8; 16], _: &dyn File, _: &Path) -> Result<()> {
        match encryption.key.0 {}
    }

    /// Volumes with a cipher have been refused when their superblock was read.
    pub(crate) fn read(
        _: Arc<dyn File>,
        path: &Path,
        _: (Cipher, [u8; 16]),
        _: Option<&Encryption>,
    ) -> Result<(Keyring, Vec<String>)> {
        Err(crate::error::Error::invalid(format!(
            "{}: it is encrypted, and this build has no encryption; use a build with the feature \
             `encryption`",
            path.display()
        )))
    }

    pub(crate) fn seal_block(&self, _: u64, _: &mut [u8], _: &mut [u8]) {
        match self.0 {}
    }

    pub(crate) fn open_block(&self, _: u64, _: &mut [u8], _: &[u8]) -> std::result::Result<(), Refused> {
        match self.0 {}
    }

    pub(crate) fn seal_record(&self, _: [u8; 2], _: &mut Vec<u8>, _: usize) {
        match self.0 {}
    }

    pub(crate) fn open_record(
        &self,
        _: [u8; 2],
        _: &[u8],
        _: &mut Vec<u8>,
    ) -> std::result::Result<(), Refused> {
        match self.0 {}
    }

    pub(crate) fn plain_uuid(&self, _: u8) -> [u8; 16] {
        match self.0 {}
    }

    pub(crate) fn is_plain(&self, _: u8, _: &[u8; 16]) -> bool {
        match self.0 {}
    }

    pub(crate) fn cipher(&self) -> Cipher {
        match self.0 {}
    }

    pub(crate) fn newest(&self) -> u32 {
        match self.0 {}
    }

    pub(crate) fn key_of(_: &[u8]) -> u32 {
        0
    }

    pub(crate) fn write_again(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn mend(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn watch(
        &self,
        _: impl Fn() -> u64 + Send + Sync + 'static,
        _: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) {
        match self.0 {}
    }
}

impl RunKeys {
    pub(crate) fn random(_: Cipher) -> Option<RunKeys> {
        None
    }

    pub(crate) fn next(&self) -> RunKey {
        match self.0 {}
    }
}

impl RunKey {
    pub(crate) fn seal(&self, _: u64, _: &mut Vec<u8>, _: usize) {
        match self.0 {}
    }

    pub(crate) fn open(&self, _: u64, _: &mut Vec<u8>) -> bool {
        match self.0 {}
    }
}
