//! The user's key: where it comes from.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use zeroize::Zeroizing;

use super::aead::{self, KEY_BYTES, SecretBytes};
use crate::error::{Error, ErrorKind, Result};

/// A file with a key is not longer than its digits, white space and a line end or two.
const FILE_BYTES_MAX: u64 = 256;

/// The key of an encrypted environment, 256 bits, which its user keeps. It encrypts (wraps) the data keys,
/// with which the data is encrypted, so it can be changed without encrypting the data again.
///
/// Without it the environment cannot be read: keep copies of it elsewhere. It must be random; do not use a
/// password. Neither its `Debug` nor any error shows it, and it is wiped from memory when it is dropped.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("sablecat-doc-key-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// use sablecat::{EncryptionKey, Env, ErrorKind};
///
/// let file = directory.join("key");
/// EncryptionKey::random().write_new(&file)?;
///
/// let key = EncryptionKey::from_file(&file)?;
/// let env = Env::builder().encryption_key(key.clone()).open(directory.join("env"))?;
/// env.database("stock")?.insert("apples", "3")?;
/// env.close()?;
///
/// let refused = Env::open(directory.join("env")).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::EncryptionKey);
/// let env = Env::builder().encryption_key(key).open(directory.join("env"))?;
/// # drop(env);
/// # std::fs::remove_dir_all(directory).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EncryptionKey(SecretBytes);

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(not shown)")
    }
}

fn wrong(from: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::EncryptionKey,
        format!("{from}: a key is 64 hexadecimal digits; in a file it may also be 32 bytes"),
    )
}

impl EncryptionKey {
    /// A new key, from the system's random numbers.
    #[must_use]
    pub fn random() -> EncryptionKey {
        EncryptionKey(Zeroizing::new(aead::random()))
    }

    /// The key of these 32 bytes. The caller keeps the array, and should wipe it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> EncryptionKey {
        EncryptionKey(Zeroizing::new(*bytes))
    }

    /// The key of 64 hexadecimal digits, with white space around them or not.
    ///
    /// # Errors
    /// `EncryptionKey` if that is not what the text is.
    pub fn from_hex(text: &str) -> Result<EncryptionKey> {
        Self::parse(text.as_bytes()).ok_or_else(|| wrong("the text given as a key"))
    }

    /// The key in a file: 64 hexadecimal digits, with white space around them or not, or 32 bytes.
    ///
    /// # Errors
    /// `EncryptionKey` if the file has something else; `Io`.
    pub fn from_file(path: impl AsRef<Path>) -> Result<EncryptionKey> {
        let path = path.as_ref();
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize));
        let file = File::open(path).map_err(|e| Error::io("opening the file with the key", path, e))?;
        file.take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io("reading the key in", path, e))?;
        match <&[u8; KEY_BYTES]>::try_from(&bytes[..]) {
            Ok(whole) => Ok(Self::from_bytes(whole)),
            Err(_) => Self::parse(&bytes).ok_or_else(|| wrong(path.display())),
        }
    }

    /// The key in an environment variable of the process: 64 hexadecimal digits. Users who may inspect the
    /// process may see it: use a file where you can.
    ///
    /// # Errors
    /// `EncryptionKey` if there is no such variable, or something else in it.
    pub fn from_variable(name: &str) -> Result<EncryptionKey> {
        let text = std::env::var_os(name)
            .ok_or_else(|| Error::new(ErrorKind::EncryptionKey, format!("there is no variable {name}")))?;
        let text = Zeroizing::new(text.into_encoded_bytes());
        Self::parse(&text).ok_or_else(|| wrong(format_args!("the variable {name}")))
    }

    /// Writes the key into a new file that only its owner can read, as hexadecimal digits. Durable when it
    /// returns.
    ///
    /// # Errors
    /// `Exists` if there is a file of that name; `Io`, `DiskFull`.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let io = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => Error::new(
                ErrorKind::Exists,
                format!(
                    "writing the key to {}: it exists already, and may be a key that is needed; name \
                     another file",
                    path.display()
                ),
            ),
            _ => Error::io("writing the key to", path, e),
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
        let mut text = Zeroizing::new(Vec::with_capacity(2 * KEY_BYTES + 1));
        for byte in self.0.iter() {
            text.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
        }
        text.push(b'\n');
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all()).map_err(io)
    }

    fn parse(text: &[u8]) -> Option<EncryptionKey> {
        let (pairs, rest) = text.trim_ascii().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if !rest.is_empty() || pairs.len() != KEY_BYTES {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(EncryptionKey(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_digits_or_bytes_and_is_shown_nowhere() {
        let digits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
        let key = EncryptionKey::from_hex(&format!(" {digits}\n")).unwrap();
        assert_eq!(key.bytes()[..4], [0, 0x11, 0x22, 0x33]);
        assert!(!format!("{key:?}").contains("11"));
        for text in ["", &digits[1..], &digits[2..], &format!("{digits}00"), &digits.replace('a', "x")] {
            let error = EncryptionKey::from_hex(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::EncryptionKey);
            assert!(text.is_empty() || !error.to_string().contains(text), "{error}");
        }
        assert_eq!(
            EncryptionKey::from_variable("SABLECAT_NO_SUCH").unwrap_err().kind(),
            ErrorKind::EncryptionKey
        );
    }

    #[test]
    fn a_key_file_is_its_owners_and_is_not_written_twice() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("sablecat-key-{}", std::process::id()));
        let key = EncryptionKey::random();
        key.write_new(&path).unwrap();
        assert_eq!(EncryptionKey::from_file(&path).unwrap().bytes(), key.bytes());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(key.write_new(&path).unwrap_err().kind(), ErrorKind::Exists);
        std::fs::write(&path, key.bytes()).unwrap();
        assert_eq!(EncryptionKey::from_file(&path).unwrap().bytes(), key.bytes());
        std::fs::write(&path, [b'0'; 300]).unwrap();
        assert_eq!(EncryptionKey::from_file(&path).unwrap_err().kind(), ErrorKind::EncryptionKey);
        std::fs::remove_file(&path).unwrap();
    }
}
